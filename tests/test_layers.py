"""The house keeps its layers: rooms import only what they may, and the engine is pure.

A wrong import is the first thing to rot, and nobody sees it in a review. The table below is the
rule; `docs/architecture.md` draws it.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "makeway"


class Room(NamedTuple):
    rooms: frozenset[str] = frozenset()  # rooms, or single modules of them, that it may import
    libraries: frozenset[str] = frozenset()  # besides the standard library
    is_pure: bool = False


def room(*rooms: str, libraries: tuple[str, ...] = (), is_pure: bool = False) -> Room:
    return Room(frozenset(rooms), frozenset(libraries), is_pure)


ROOMS = {
    "accounts": room(),
    "backoff": room(is_pure=True),
    "beside": room(),
    "peers": room(),
    "together": room(),
    "selectors": room(is_pure=True),
    "api": room("selectors", libraries=("yaml",)),
    # mypy_extensions: for type checkers and the compiler only, never loaded
    "engine": room("backoff", "selectors", libraries=("mypy_extensions",), is_pure=True),
    "placement": room(
        *("selectors", "engine.model", "engine.matching"), libraries=("numpy",), is_pure=True
    ),
    "translate": room("selectors", "api", "engine", "placement"),
    "store": room(),
    "journal": room("engine", "logs"),
    "server": room(
        *("accounts", "selectors", "api", "disk", "history.archive", "logs", "peers", "store"),
        *("together", "watchdog"),
        libraries=("aiohttp", "cryptography", "orjson"),
    ),
    "client": room("api", "backoff", "logs", "together", libraries=("aiohttp", "orjson")),
    "plane": room("api", "backoff", "client", "logs", "watchdog", libraries=("orjson",)),
    "controller": room(
        *("api", "backoff", "client", "logs", "plane", "engine", "placement", "translate")
    ),
    # What runs as root: see `test_root_runs_the_standard_library_and_little_else`.
    "starter": room(
        *("accounts", "clocks", "disk", "logs", "notify", "runner.cgroups", "runner.folders"),
        *("runner.homes", "runner.host", "runner.leavings", "runner.local", "runner.processes"),
        "runner.mounting",
        "runner.states",
    ),
    "system": room("accounts", "api"),
    "runner": room(
        *("api", "backoff", "client", "clocks", "disk", "logs", "plane", "watchdog"),
        libraries=("pynvml",),
    ),
    "drawing": room(),
    "dashboard": room(
        *("api", "client", "drawing", "journal", "logs", "plane", "server", "translate"),
        *("engine.decisions", "engine.events", "engine.model"),
        libraries=("orjson",),
    ),
    "sim": room("api", "drawing", "engine", "journal", "placement", "selectors", "translate"),
    "forecast": room("api", "beside", "engine", "journal", "logs", "sim", "translate"),
    "local_socket": room(),
    "history": room("api", "client", "clocks", "logs", "plane", libraries=("orjson",)),
    "notify": room(),
    "logs": room(),
    "watchdog": room("backoff", "logs"),
    "clocks": room("logs"),
    "disk": room(),
    "embedded": room(
        *("api", "clocks", "disk", "logs", "store", "server", "client", "plane", "controller"),
        *("accounts", "beside", "dashboard", "engine", "forecast", "history", "journal"),
        *("retelling", "runner", "sim", "translate", "watchdog"),
    ),
    "cluster": room(
        *("api", "client", "dashboard", "forecast", "journal", "logs", "plane", "controller"),
        "together",
        libraries=("aiohttp", "orjson"),
    ),
    "retelling": room("api", "journal", "translate"),
    "deploy": room("api", "client"),
    "cli": room(
        *("api", "client", "cluster", "controller", "deploy", "embedded", "engine"),
        "dashboard.relay",
        *("accounts", "backoff", "forecast", "journal", "local_socket", "logs", "notify", "peers"),
        *("plane", "retelling", "server.people", "sim", "system", "together", "translate"),
        libraries=("wcwidth",),
    ),
    "handle": room("api", "cli", "client", "translate"),
}
# What others may import of the engine: values, and the engine itself.
ENGINE_DOORS = frozenset(
    {"decisions", "engine", "events", "explain", "matching", "model", "preview", "view"}
)
# One file knows a library; the others don't.
ONLY_IN = {
    "mypy_extensions": "engine/compiling.py",
    "pynvml": "runner/nvml.py",
    "yaml": "api/manifests.py",
}
# What reads clocks, draws lots, logs, or reaches the world outside.
IMPURE = frozenset(
    {
        *("asyncio", "concurrent", "ctypes", "datetime", "glob", "http", "importlib", "io"),
        *("logging", "multiprocessing", "os", "pathlib", "pickle", "platform", "queue"),
        *("random", "secrets", "select", "selectors", "shelve", "shutil", "signal", "socket"),
        *("sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib"),
        *("uuid", "warnings"),
    }
)
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "breakpoint", "__import__"})


class Import(NamedTuple):
    file: Path
    line: int
    module: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE)}:{self.line} imports {self.module}"


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def room_of(file: Path) -> str:
    """The folder or file right below the package; empty for the package itself."""
    first = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


class Facts(NamedTuple):
    """What the rules below ask of a file."""

    imports: list[Import]
    calls: list[tuple[int, str]]  # the line, and what is called by a name of its own
    reaches: list[tuple[int, str]]  # into the state of an engine
    waits: list[int]  # lines


@cache
def facts(file: Path) -> Facts:
    found = Facts([], [], [], [])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found.imports.extend(Import(file, node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names):
                assert node.level == 0, f"{file}:{node.lineno}: write the import out in full"
                found.imports.extend(
                    Import(file, node.lineno, f"{module}.{alias.name}") for alias in names
                )
            case ast.Call(func=ast.Name(id=name)):
                found.calls.append((node.lineno, name))
            case ast.Attribute(attr="state" | "_state") if ast.unparse(node.value).endswith(
                "engine"
            ):
                found.reaches.append((node.lineno, ast.unparse(node)))
            case ast.AsyncFunctionDef() | ast.AsyncWith() | ast.AsyncFor() | ast.Await():
                found.waits.append(node.lineno)
    return found


def imported_room(module: str) -> str | None:
    """`engine.model` for makeway.engine.model.Quota; None for what is not ours."""
    parts = module.split(".")
    return ".".join(parts[1:3]) if parts[0] == "makeway" and len(parts) > 1 else None


@cache
def all_imports() -> list[Import]:
    return [found for file in modules() for found in facts(file).imports]


def test_every_room_is_listed() -> None:
    unlisted = {room_of(file) for file in modules()} - ROOMS.keys() - {""}

    assert not unlisted, f"say in ROOMS what {sorted(unlisted)} may import, and why in docs/"


@pytest.mark.parametrize("name", sorted(ROOMS))
def test_a_room_imports_only_what_it_may(name: str) -> None:
    wrong = []
    for found in all_imports():
        wanted = imported_room(found.module)
        if room_of(found.file) != name or wanted is None:
            continue
        if wanted.partition(".")[0] not in ROOMS[name].rooms | {name} and (
            wanted not in ROOMS[name].rooms
        ):
            wrong.append(str(found))

    assert not wrong, f"{name} may import {sorted(ROOMS[name].rooms)}"


@pytest.mark.parametrize("name", sorted(ROOMS))
def test_a_room_uses_only_the_libraries_it_may(name: str) -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if room_of(found.file) == name
        and (top := found.module.partition(".")[0]) not in sys.stdlib_module_names
        and top not in ROOMS[name].libraries | {"makeway"}
    ]

    assert not wrong, f"{name} may use {sorted(ROOMS[name].libraries)}"


def test_a_library_is_known_to_one_file() -> None:
    wrong = [
        str(found)
        for found in all_imports()
        for library, home in ONLY_IN.items()
        if found.module.partition(".")[0] == library and found.file != SOURCE / home
    ]

    assert not wrong


@pytest.mark.parametrize("name", sorted(n for n, r in ROOMS.items() if r.is_pure))
def test_a_pure_room_imports_nothing_impure(name: str) -> None:
    wrong = [
        str(found)
        for found in all_imports()
        if room_of(found.file) == name and found.module.partition(".")[0] in IMPURE
    ]

    assert not wrong, f"{name} is told what it needs; it has no clock, log, disk or network"


@pytest.mark.parametrize("name", sorted(n for n, r in ROOMS.items() if r.is_pure))
def test_a_pure_room_calls_nothing_impure(name: str) -> None:
    calls = [
        f"{file.relative_to(SOURCE)}:{line} calls {called}"
        for file in modules()
        if room_of(file) == name
        for line, called in facts(file).calls
        if called in IMPURE_CALLS
    ]

    assert not calls


def test_nobody_outside_the_engine_reaches_into_its_state() -> None:
    """They are told by values: events in, decisions and changes out, and what the view answers."""
    imported = {
        str(found)
        for found in all_imports()
        if room_of(found.file) != "engine"
        and found.module.startswith("makeway.engine.")
        and found.module.split(".")[2] not in ENGINE_DOORS
    }
    reached = {
        f"{file.relative_to(SOURCE)}:{line} says {text}"
        for file in modules()
        if room_of(file) != "engine"
        for line, text in facts(file).reaches
    }

    assert not imported | reached


@pytest.mark.parametrize("name", ["api", "engine", "placement", "translate", "store", "sim"])
def test_a_room_that_waits_for_nothing_is_not_async(name: str) -> None:
    found = [
        f"{file.relative_to(SOURCE)}:{line}"
        for file in modules()
        if room_of(file) == name
        for line in facts(file).waits
    ]

    assert not found


ROOT_RUNS = frozenset(  # beside the standard library, from the first process on
    {
        *("accounts", "backoff", "clocks", "disk", "logs", "notify", "watchdog"),
        *(f"starter.{name}" for name in ("door", "homes", "main", "orders", "table")),
        *(f"runner.{name}" for name in ("cgroups", "containers", "dropping", "folders")),
        *(
            f"runner.{name}"
            for name in ("calls", "gpu_guard", "gpu_locks", "homes", "mounting", "sessions")
        ),
        *(f"runner.{name}" for name in ("host", "leavings", "local", "probes", "processes")),
        *(f"runner.{name}" for name in ("damage", "states", "strays", "supervisor")),
        "runner.written_order",
    }
)


def test_root_runs_the_standard_library_and_little_else() -> None:
    """Everything that the starter and its supervisors import, and what that imports."""
    by_module: dict[str, set[str]] = {}
    for found in all_imports():
        name = ".".join(found.file.relative_to(SOURCE).with_suffix("").parts)
        by_module.setdefault(name, set()).add(found.module)
    reached, left = set[str](), {"starter.main", "runner.supervisor"}
    while left:
        module = left.pop()
        reached.add(module)
        for name in by_module.get(module, ()):
            parts = name.split(".")
            if parts[0] == "makeway" and len(parts) > 1:
                names = ".".join(parts[1:]), ".".join(parts[1:-1]) or parts[1]
                left |= {next(name for name in names if name in by_module)} - reached
            elif parts != ["makeway"]:
                assert parts[0] in sys.stdlib_module_names, f"{module} imports {name}"

    assert reached == ROOT_RUNS, "docs/what-runs-as-root.md tells of each of them"


def test_the_rooms_stand_in_an_order() -> None:
    """No two rooms may need each other, not even over a third one."""
    left = {name: {r.partition(".")[0] for r in room.rooms} for name, room in ROOMS.items()}
    while left:
        free = [name for name, needs in left.items() if not needs & left.keys()]
        assert free, f"a cycle among {sorted(left)}"
        for name in free:
            del left[name]
