"""Calls of functions as files: what is called, with what, and what came of it.

A call is written before its job is made, the outcome by the job before it ends. The job runs
`makeway.handle.task`, so nothing that talks to a server is imported here.
"""

from __future__ import annotations

import importlib
import os
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# Of what multiprocessing hands to a process that it starts: where modules are, and which is main.
_PATHS = ("sys_path", "sys_argv")
_MAIN = ("init_main_from_name", "init_main_from_path")
_RETURNED, _RAISED = b"+", b"-"  # the first byte of an outcome


class CallFailed(Exception):
    """A function raised what can't be sent; the text is what it said."""


class Call(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def call_each(function: Callable[..., Any], items: Sequence[Sequence[Any]]) -> list[Any]:
    """For several calls in one job."""
    return [function(*item) for item in items]


class Outcome(NamedTuple):
    result: Any
    error: BaseException | None  # None: it returned


def write_call(path: Path, call: Call) -> None:
    """PicklingError, TypeError or AttributeError if it can't be sent."""
    pickled, is_by_value = _pickled(tuple(call))
    needs_main = not is_by_value and b"__main__" in pickled
    beginning = pickle.dumps(_surroundings(needs_main=needs_main))
    _write(_call_at(path), beginning + pickled)


def _surroundings(*, needs_main: bool) -> Mapping[str, Any]:
    """What a job needs to find the modules that a call names."""
    from multiprocessing.spawn import get_preparation_data

    found = get_preparation_data("makeway")
    return {name: found[name] for name in (*_PATHS, *_MAIN * needs_main) if name in found}


def run_call(path: Path) -> bool:
    """Call it and write what came of it; False if it raised. What has returned is not repeated."""
    outcome = _outcome_at(path)
    if outcome.exists() and outcome.read_bytes()[:1] == _RETURNED:
        return True
    outcome.unlink(missing_ok=True)
    try:
        written, _ = _pickled(_called(path))
        _write(outcome, _RETURNED + written)
    except Exception as error:
        traceback.print_exc()
        _write(outcome, _RAISED + _failure(error))
        return False
    return True


def _called(path: Path) -> Any:
    from multiprocessing.spawn import prepare

    with open(_call_at(path), "rb") as file:
        prepare(pickle.load(file))
        call = Call(*pickle.load(file))
    return call.function(*call.args, **call.kwargs)


def _failure(error: Exception) -> bytes:
    """So that it can be read again, which is not true of every exception."""
    note = f"\nIn the job:\n{''.join(traceback.format_exception(error))}"
    told = CallFailed(f"{type(error).__name__}: {error}")
    for one in (error.with_traceback(None), told):
        one.add_note(note)
    try:
        written, _ = _pickled(error)
        pickle.loads(written)
    except Exception:
        return pickle.dumps(told)
    return written


def read_outcome(path: Path) -> Outcome:
    """FileNotFoundError: the job has not come that far."""
    content = _outcome_at(path).read_bytes()
    value = pickle.loads(content[1:])
    return Outcome(value, None) if content[:1] == _RETURNED else Outcome(None, value)


def forget_call(path: Path) -> None:
    for file in (_call_at(path), _outcome_at(path)):
        file.unlink(missing_ok=True)


def _pickled(value: Any) -> tuple[bytes, bool]:
    """With cloudpickle, where it is installed, also what no module has: lambdas, notebooks."""
    try:
        by_value = importlib.import_module("cloudpickle")
    except ImportError:
        return pickle.dumps(value), False
    written: bytes = by_value.dumps(value)
    return written, True


def _call_at(path: Path) -> Path:
    return path.with_name(f"{path.name}.call")


def _outcome_at(path: Path) -> Path:
    return path.with_name(f"{path.name}.outcome")


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: a job may be stopped at any moment."""
    partly = path.with_name(f"{path.name}.{os.getpid()}")
    partly.write_bytes(content)
    partly.replace(path)
