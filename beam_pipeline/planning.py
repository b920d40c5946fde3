"""Plans a conversion: lists, joins and estimates, and writes nothing to the output folder."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.pvalue import AsIter, AsSingleton

from beam_pipeline import launch, summary, terminal
from beam_pipeline.config import ConvertConfig
from beam_pipeline.core.dataset import estimate
from beam_pipeline.core.dataset.changes import ShardFate, changes_file
from beam_pipeline.core.dataset.plan import Plan
from beam_pipeline.core.dataset.tally import mean_seconds
from beam_pipeline.core.errors import UsageError
from beam_pipeline.core.text import counted, human_size
from beam_pipeline.engines.base import Engine
from beam_pipeline.layouts.layout import FileLabels, ListedLabels
from beam_pipeline.pipeline import Dataflow
from beam_pipeline.storage import buckets, files
from beam_pipeline.transforms.planning import AssignShards, preview_changes
from beam_pipeline.work import receipts, writer_process

_SHOWN_SHARDS = 3


def print_plan(
    config: ConvertConfig,
    machines: estimate.Machines | None,
    prices_uri: str,
    beam_argv: Sequence[str] = (),
) -> None:
    """Lists images, joins labels, and prints what the conversion would write.

    Prints the cost on Dataflow if an option or a path is about a cloud.

    Args:
      config: the conversion.
      machines: the workers that the estimate is for; None for the usual ones.
      prices_uri: JSON file with prices; empty for the defaults of `Prices`.
      beam_argv: Beam's options; without any, the plan is made on this machine.

    Raises:
      ConversionError: the conversion would fail, and why.
    """
    prices = estimate.Prices()
    if prices_uri:
        text = files.read_text(files.canonical(prices_uri), f"--prices {prices_uri}")
        prices = estimate.parse_prices(text, prices_uri)
    # As for an output folder that is empty, so that there is nothing to keep or replace.
    output = replace(config.options.output, overwrite=False, resume=False)
    run = launch.Run(replace(config, options=replace(config.options, output=output)), beam_argv)
    plan, packed, changes = _planned(run)
    terminal.say(*_plan_lines(plan, config))
    if plan.refusal:
        raise plan.refusal.to_error()
    if config.earlier:
        terminal.say(*_reuse_lines(plan, config.earlier, changes))
    on_cloud = any(uri.startswith("gs://") for uri in config.uris)
    if machines or prices_uri or on_cloud or run.engine.name == "DataflowRunner":
        work = _work(plan, packed, config)
        terminal.say(*_estimate_lines(work, machines or estimate.Machines(), prices))


def _work(plan: Plan, packed: int, config: ConvertConfig) -> estimate.Work:
    """The work of a conversion, of its plan and the size of all references as they are shuffled."""
    tally, labels = plan.tally, config.source.labels
    masks = tally.label_rows if isinstance(labels, ListedLabels) else 0
    return estimate.Work(
        samples=tally.samples.total(),
        files=masks,
        image_bytes=tally.sample_bytes.total(),
        reference_bytes=packed,
        listed=tally.listed + tally.ignored.total() + masks,
        joined=isinstance(labels, (FileLabels, ListedLabels)),
        shards=len(plan.shard_plan.specs),
        encode_s=mean_seconds(tally.measured) if tally.measured else 0.0,
        buckets=len({buckets.place_of(root.uri).bucket for root in config.source.roots}) or 1,
    )


def _planned(run: launch.Run) -> tuple[Plan, int, Sequence[ShardFate]]:
    """The plan, the bytes of all references as they are shuffled, and what changed in each reused shard."""
    scratch, make_folder = _scratch_folder(run.engine)
    clean_up = partial(files.delete_folder, scratch)
    # Ctrl-C is handled before the folder exists, so it is never left behind.
    with launch.interruptible(lambda: "interrupted", clean_up), contextlib.ExitStack() as stack:
        stack.callback(clean_up)
        make_folder()
        path = files.join(scratch, "plan")
        config = run.config = replace(run.config, output=scratch)

        def build(pipeline: beam.Pipeline) -> None:
            dataflow = Dataflow(config, writes=False)
            samples, plan, _ = dataflow.plan(dataflow.label(pipeline))
            packed = (
                samples
                | "Pack" >> beam.Map(lambda batch: len(batch.packed())).with_output_types(int)
                | "SumPacked" >> beam.CombineGlobally(sum)
            )
            changes: object = ()
            if config.earlier:
                shards = samples | AssignShards(plan=plan, encoding=config.encoding)
                preview = preview_changes(plan, dataflow.request)
                changes = AsIter(shards | "PreviewChanges" >> preview)
            _ = plan | "Keep" >> beam.Map(_keep, AsSingleton(packed), changes, path)

        with terminal.show_progress(writes=False):
            run.plan(build)
        planned: tuple[Plan, int, Sequence[ShardFate]] = pickle.loads(files.read_bytes(path))
        return planned


def _scratch_folder(engine: Engine) -> tuple[str, Callable[[], None]]:
    """Names a folder where workers leave the plan, and returns what makes it.

    Raises:
      UsageError: the engine's workers lack a folder in common with this machine.
    """
    location: str = engine.options.view_as(GoogleCloudOptions).temp_location or ""
    if engine.name == "DataflowRunner" and not location:
        raise UsageError(
            f"--runner={engine.name}: its workers leave the plan in --temp_location; name a folder in "
            "a bucket, such as --temp_location=gs://my-bucket/tmp"
        )
    parent = files.canonical(location) if location else tempfile.gettempdir()
    folder = files.join(parent, f"beam-tfrecord-plan-{uuid.uuid4().hex}")
    make = files.make_folder if location else partial(os.mkdir, mode=0o700)
    return folder, partial(make, folder)


def _keep(plan: Plan, packed: int, changes: Iterable[ShardFate], path: str) -> None:
    files.write_bytes(path, pickle.dumps((plan, packed, list(changes))))


def _plan_lines(plan: Plan, config: ConvertConfig) -> Iterator[str]:
    tally, specs = plan.tally, plan.shard_plan.specs
    size = human_size(sum(map(tally.written_bytes, tally.samples)))
    size = f"about {size}" if tally.measured else size
    yield f"{counted(tally.samples.total(), 'sample')}, {size}, would go to {config.output}; nothing was written"
    yield ""
    for split, count in plan.shard_plan.shards:
        samples = counted(tally.samples[split], "sample")
        yield summary.split_line(split, samples, count, tally.written_bytes(split))
    if tally.measured:
        seconds = mean_seconds(tally.measured)
        yield (
            f"  images are re-encoded: {human_size(tally.sample_bytes.total())} of files, by "
            f"{counted(len(tally.measured), 'sample')} that were measured; {1000 * seconds:.1f} ms of CPU "
            f"each, {_duration(seconds * tally.samples.total() / writer_process.cores())} with a writer per core here"
        )
    more = f", ... {specs[-1].file_name}" if len(specs) > _SHOWN_SHARDS else ""
    yield f"  shards: {', '.join(spec.file_name for spec in specs[:_SHOWN_SHARDS])}{more}"
    numbering, counts = config.source.numbering, tally.classes
    if plan.classes:
        classes = [(i, name, counts[name] if counts else None) for name, i in plan.classes]
        yield from summary.class_lines(classes, chosen=bool(numbering.from_name or numbering.known))
    else:
        yield "  no classes"
    yield from (f"  note: {note}" for note in plan.notes)
    if tally.unlabelled:
        yield f"  unlabelled: {tally.unlabelled}, to be written without label features"
    yield from summary.ignored_lines(tally.ignored)
    if tally.duplicates.images_compared or config.duplicate_search(writes=False):
        lines = [*summary.duplicate_lines(tally.duplicates, "duplicates")]
        yield from lines or ["  duplicates: none"]
    yield (
        f"  dead letters so far: {tally.dead.total() or 'none'}; images are not opened, so broken "
        "ones are not counted yet"
    )
    for reason, count in sorted(tally.dead.items()):
        examples = tally.shown.get(reason, ())
        yield f"    {reason}: {count} ({', '.join(examples)}{', ...' if count > len(examples) else ''})"


def _reuse_lines(
    plan: Plan, earlier: receipts.EarlierDataSet, changes: Iterable[ShardFate]
) -> Iterator[str]:
    """Says what changed since the earlier data set, and which shards would be written."""
    tally = plan.tally
    gone = earlier.samples_elsewhere([split for split, _ in plan.shard_plan.shards])
    figures = changes_file(earlier.folder, changes, gone=gone)
    listed = tally.sample_bytes.total()
    written = sum(map(tally.written_bytes, tally.samples))
    figures["bytes"]["written"] = figures["bytes"]["written"] * written // (listed or 1)
    return summary.reuse_lines(figures, planned=True)


def _estimate_lines(
    work: estimate.Work, machines: estimate.Machines, prices: estimate.Prices
) -> Iterator[str]:
    estimated = estimate.estimate(work, machines, prices)
    yield ""
    yield (
        f"On Dataflow with {counted(machines.workers, 'worker')} of "
        f"{counted(machines.vcpus, 'vCPU')}, roughly (docs/scale.md explains the estimate):"
    )
    yield ""
    yield (
        f"  shuffled: {human_size(estimated.shuffle_bytes)}; "
        f"{human_size(estimated.records_shuffle_bytes)} with --shuffle=records"
    )
    yield f"  requests to the bucket: {estimated.class_a} lists and writes, {estimated.class_b} reads"
    yield f"  time: {_duration(estimated.seconds)}, {estimated.vcpu_hours:.1f} vCPU hours"
    yield f"  cost: {estimated.dollars:.2f} USD; {estimated.records_dollars:.2f} with --shuffle=records"
    if estimated.ramp_s >= 60:
        yield (
            f"  note: {_duration(estimated.ramp_s)} of that is waiting: a bucket takes {estimate.FIRST_READS:,} reads per "
            f"second at first, and twice as many every {estimate.DOUBLING_S // 60} minutes"
        )
    if estimated.idle_workers:
        yield (
            f"  note: {estimated.idle_workers} of the workers would be without a shard to write; "
            "--num_shards makes more"
        )
    wanted, most = estimate.workers_for(work, machines.vcpus, 2)
    if wanted > 1:
        yield f"  workers for {estimate.WANTED_S // 60} min of writing: --num_workers={wanted} --max_num_workers={most}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = -(-seconds // 60)
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
