"""Remembers which DoFns have state or timers.

Beam looks through all methods of a DoFn for them some 50 times while it starts a job of ours, which
takes a fifth of the time of a small one. The answer depends on the methods alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any

from apache_beam.transforms import userstate

_MOST = 1024  # kinds of DoFns; a program of its own may run other jobs, too

_Specs = tuple[set[Any], set[Any]]


def remember_dofn_specs() -> None:
    """From now on, Beam looks through each kind of DoFn once."""
    if not hasattr(userstate.get_dofn_specs, "__wrapped__"):
        userstate.get_dofn_specs = _remembered(userstate.get_dofn_specs)


def _remembered(find: Callable[[Any], _Specs]) -> Callable[[Any], _Specs]:
    known: dict[Any, _Specs] = {}

    @wraps(find)
    def find_once(dofn: Any) -> _Specs:
        # `beam.Map` keeps the function as an attribute, which is a method if that is one.
        own = [value for value in vars(dofn).values() if isinstance(value, MethodType)]
        kind = (type(dofn), *(method.__func__ for method in own))
        if kind not in known:
            if len(known) >= _MOST:
                known.clear()
            known[kind] = find(dofn)
        states, timers = known[kind]
        return set(states), set(timers)

    return find_once
