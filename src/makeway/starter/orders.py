"""An order of the server, checked as if a stranger had sent it.

Its form has to be exactly that of a `RunOrder`, and what becomes part of a path or of a cgroup's
name has to be a plain name. Everything else is done by the account, and is its own business.
"""

from __future__ import annotations

import re
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from makeway.runner.host import AttachWish, ConnectWish, ExecWish, RunOrder, Wish

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
CONTAINERS_MAX = 100
SECONDS_MAX = 1e18  # no clock counts so far, and a float holds it
_WISHES = {"exec": ExecWish, "attach": AttachWish, "connect": ConnectWish}


class BadOrder(Exception):
    """No order that the server would give."""


def checked(document: object) -> RunOrder:
    order: RunOrder = _value(RunOrder, document, "pod")
    programs = (*order.init, *order.containers)
    names = [program.name for program in programs]
    for name in (order.uid, order.namespace, *names, *order.volumes):
        checked_name(name)
    if not 0 < len(names) <= CONTAINERS_MAX or max(Counter(names).values()) > 1:
        raise BadOrder(f"containers {names}")
    for program in programs:
        _check(bool(program.argv), f"{program.name}: argv")
        _check(program.folder[:1] in ("", "/"), f"{program.name}: folder {program.folder}")
        _check(all(name and "=" not in name for name in program.env), f"{program.name}: env")
        for mount in program.mounts:
            _check(mount.volume in order.volumes, f"{program.name}: volume {mount.volume}")
    for name in (*order.files, *order.secret_volumes):
        _check(order.volumes.get(name) == "", f"volume {name}")
    return order


def checked_wish(document: object) -> Wish:
    """What somebody wants in a pod that runs."""
    _check(isinstance(document, dict), "wish")
    assert isinstance(document, dict)
    _check(isinstance(document.get("do"), str) and document["do"] in _WISHES, "wish.do")
    wish: Wish = _value(_WISHES[document["do"]], document, "wish")
    match wish:
        case ExecWish(container=container, argv=argv):
            checked_name(container)
            _check(bool(argv), "wish.argv")
        case AttachWish(container=container):
            checked_name(container)
        case ConnectWish(port=port):
            _check(0 < port <= 0xFFFF, f"wish.port {port}")
    return wish


def checked_name(name: object) -> str:
    """A name that may stand in a path, among others of its kind."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadOrder(f"{name!r} is no name")
    return name


def seconds(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) < SECONDS_MAX
    ):
        raise BadOrder(f"{value!r} is no number of seconds")
    return float(value)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise BadOrder(what)


def _value(hint: Any, document: Any, path: str) -> Any:
    """What the type says, made of JSON; nothing is converted and nothing is left out."""
    if is_dataclass(hint):
        return _object(hint, document, path)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(document, list):
        return tuple(_value(inner[0], one, f"{path}[{n}]") for n, one in enumerate(document))
    if origin is Mapping and isinstance(document, dict):
        return {_text(n): _value(inner[1], one, f"{path}.{n}") for n, one in document.items()}
    if origin in (Union, types.UnionType):
        own = (kind for kind in inner if type(document) is kind)
        return _value(next(own, inner[0]), document, path)
    if origin is Literal and document in inner:
        return document
    read = _PLAIN.get(hint)
    if read is None:
        raise BadOrder(f"{path}: {document!r}")
    return read(document)


def _object(kind: Any, document: Any, path: str) -> Any:
    hints = _hints(kind)
    if not isinstance(document, dict) or document.keys() != hints.keys():
        raise BadOrder(f"{path}: fields")
    return kind(**{name: _value(hints[name], document[name], f"{path}.{name}") for name in hints})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    found = get_type_hints(kind)
    return {field.name: found[field.name] for field in fields(kind)}


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise BadOrder(f"{value!r} is no text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadOrder(f"{value!r} is no whole number")
    return value


def _nothing(value: object) -> None:
    if value is not None:
        raise BadOrder(f"{value!r} is not null")


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadOrder(f"{value!r} is neither true nor false")
    return value


_PLAIN: dict[Any, Callable[[object], Any]] = {
    str: _text,
    int: _whole,
    float: seconds,
    bool: _flag,
    types.NoneType: _nothing,
}
