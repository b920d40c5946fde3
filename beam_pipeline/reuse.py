"""Finds and opens the data set whose shards a conversion reuses (`--reuse`)."""

from __future__ import annotations

import dataclasses

from beam_pipeline.config import LATEST, SETTLED_BY_REUSE, ConvertConfig
from beam_pipeline.core.dataset.changes import option_differences
from beam_pipeline.core.dataset.manifest import MANIFEST_NAME
from beam_pipeline.core.dataset.receipts import receipt_name
from beam_pipeline.core.errors import ConversionError, UsageError
from beam_pipeline.core.uris import is_remote
from beam_pipeline.storage import files
from beam_pipeline.work.incomplete_folder import EarlierRun
from beam_pipeline.work.output_folder import read_earlier, without_options
from beam_pipeline.work.receipts import EarlierDataSet, receipts_there

_OF_OTHERS = ("features.", "columns ")
"""Recorded values that follow from options and label files."""


def with_reuse(config: ConvertConfig) -> tuple[ConvertConfig, str]:
    """The conversion with the data set that --reuse names.

    Returns: the conversion, and a sentence on where shards come from.

    Raises:
      UsageError: the folder does not contain a complete data set with receipts, or one of other options.
      ConversionError: it cannot be read.
    """
    typed = config.options.output.reuse
    if typed.startswith(LATEST):
        above = files.canonical(typed.removeprefix(LATEST))
        try:
            folder = latest_in(above, other_than=config.output)
        except OSError as error:
            raise ConversionError(f"--reuse {typed}: {error.strerror or error}") from error
        if not folder:
            return (
                config,
                f"{above} does not contain a complete data set yet, so every shard is written",
            )
    else:
        folder = files.canonical(typed)
    if folder == config.output:
        raise UsageError(
            f"--reuse {typed} is the output folder; name an earlier data set, and another --output"
        )
    earlier = _opened(folder, config)
    return dataclasses.replace(config, earlier=earlier), f"unchanged shards are those of {folder}"


def latest_in(folder: str, *, other_than: str = "") -> str:
    """The newest complete data set in a folder, by the time of its manifest, or empty.

    Args:
      folder: a folder of data sets.
      other_than: a data set that does not count.
    """
    versions = []
    for name in files.list_folder(folder):  # in buckets, paths of all files
        if is_remote(folder) and not name.endswith(f"/{MANIFEST_NAME}"):
            continue
        uri = files.join(folder, name.removesuffix(f"/{MANIFEST_NAME}"))
        manifest = files.join(uri, MANIFEST_NAME)
        if uri != other_than and (is_remote(folder) or files.exists(manifest)):
            versions.append((files.changed_at(manifest), uri))
    return max(versions, default=(0, ""))[1]


def _opened(folder: str, config: ConvertConfig) -> EarlierDataSet:
    try:
        run = read_earlier(folder)
    except ConversionError as error:
        raise UsageError(f"--reuse {folder}: {error}") from error
    if run is None or not run.complete:
        raise UsageError(
            f"--reuse {folder}: there is no {MANIFEST_NAME}, so the folder does not contain a complete data set"
        )
    _check_options(folder, run, config)
    _check_receipts(folder, run)
    classes = () if config.known else run.classes
    encoding = config.encoding
    return EarlierDataSet(folder, run.shard_plan, classes, encoding.seed, encoding.by_image)


def _check_options(folder: str, run: EarlierRun, config: ConvertConfig) -> None:
    then, now = (
        {**without_options(recorded, SETTLED_BY_REUSE), "name": ""}
        for recorded in (run.run, config.run)
    )
    changed = [text.removeprefix("options.") for text in option_differences(then, now)]
    # Another layout has other columns and so other features: naming the layout is enough.
    changed = [text for text in changed if not text.startswith(_OF_OTHERS)] or changed
    if changed:
        raise UsageError(
            f"--reuse {folder}: that data set was written with other options, so none of its shards "
            f"would be the same: {'; '.join(changed)}. Give the same options, or leave --reuse out"
        )


def _check_receipts(folder: str, run: EarlierRun) -> None:
    try:
        there = receipts_there(folder)
    except OSError as error:
        raise ConversionError(
            f"--reuse {folder}: its receipts cannot be listed: {error.strerror or error}"
        ) from error
    names = [receipt_name(spec.file_name) for spec in run.shard_plan.specs]
    missing = [name for name in names if name not in there]
    if missing:
        raise UsageError(
            f"--reuse {folder}: {len(missing)} of {len(names)} shards lack a receipt (the first is "
            f"{missing[0]}), so it cannot be told what they were made of; leave --reuse out"
        )
