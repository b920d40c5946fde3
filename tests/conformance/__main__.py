"""`python -m tests.conformance --write [GROUP...]` records the outcomes of all rows, or of some groups."""

from __future__ import annotations

import argparse
import json
import os
import tempfile

from tests.conformance.groups import EXPECTED, GROUPS, expected
from tests.conformance.outcome import dumped


def main() -> None:
    """Writes the files whose outcomes have changed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--write", nargs="*", choices=GROUPS, required=True, metavar="GROUP")
    for group in parser.parse_args().write or GROUPS:
        outcomes = {}
        for name, row in GROUPS[group].items():
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                outcomes[name] = row.outcome()
        if json.loads(json.dumps(outcomes)) != expected(group):
            (EXPECTED / f"{group}.json").write_text(dumped(outcomes), encoding="utf-8")


main()
