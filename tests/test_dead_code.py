"""Nothing in src that only tests use: every function and class is named somewhere else in src."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "makeway"
KEPT = {
    "ignore_aliases": "the YAML library calls it",
    "_fill_text": "argparse calls it",
    **dict.fromkeys(
        ("AutoExecutor", "job_id", "map_array", "submit_array", "update_parameters"),
        "users of docs/python.md call it",
    ),
}


def names_used(node: ast.AST, *, is_listing: bool) -> Iterator[str]:
    """Names that a node mentions; texts too, for what is looked up by its name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case ast.Constant(value=str(name)) if not is_listing:
            yield name


def test_nothing_in_src_is_used_by_tests_alone() -> None:
    used: Counter[str] = Counter()
    defined: dict[str, str] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            used.update(names_used(node, is_listing=file.name == "__init__.py"))
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    defined[node.name] = f"{file.relative_to(SOURCE)}:{node.lineno} {node.name}"
    unused = {
        name: place
        for name, place in defined.items()
        if not used[name] and not name.startswith("__") and name not in KEPT
    }
    assert not unused, "\n".join(unused.values())
