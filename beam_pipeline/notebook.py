"""Jobs that are started in a notebook run as in a script.

In IPython, Beam 2.77 imports its interactive runner for every transform that is applied, to label it
with the cell. The import fails without pandas and with pandas 3, and a conversion has no use for it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator

_MODULES = (
    "apache_beam.utils.interactive_utils",
    "apache_beam.pipeline",
    "apache_beam.runners.direct.direct_runner",
)
"""Those of Beam's modules that ask whether they are in IPython while a job is built or run."""
_QUESTION = "is_in_ipython"


@contextlib.contextmanager
def as_in_a_script() -> Iterator[None]:
    """Lets Beam take the program for a script while the block runs; does nothing outside IPython."""
    if "IPython" not in sys.modules:
        yield
        return
    modules = [importlib.import_module(name) for name in _MODULES]
    answers = [(module, getattr(module, _QUESTION)) for module in modules]
    try:
        for module, _ in answers:
            setattr(module, _QUESTION, _is_no_notebook)
        yield
    finally:
        for module, answer in answers:
            setattr(module, _QUESTION, answer)


def _is_no_notebook() -> bool:
    return False
