"""The pages about simulation name everything there is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from makeway.api.codec import json_name
from makeway.sim.cluster import parse_cluster
from makeway.sim.comparison import comparison_json
from makeway.sim.examples import EXAMPLES, load_example, load_variant
from makeway.sim.layouts import FIELDS
from makeway.sim.report import as_data
from makeway.sim.settings import SimulationSpec
from makeway.sim.simulate import simulate
from tests.sim.worlds import queue

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "simulate.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "simulation-report.md").read_text(encoding="utf-8")


def keys_of(value: object, skipped: tuple[str, ...]) -> Iterator[str]:
    """All field names in the data, but for maps whose keys are names of queues and the like."""
    if isinstance(value, list):
        for item in value[:1]:
            yield from keys_of(item, skipped)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in skipped:
                yield from keys_of(inner, skipped)


def test_every_field_of_the_report_is_documented() -> None:
    price = "simulation.prices=[{flavor: spot, perHour: 1}]"
    first = simulate(*load_example("stockout"), explain=["train-1"], set=[price])
    second = simulate(load_variant("stockout-without-rules"), first.trace, seed=first.seed)
    maps = (
        "evictions",
        "counts",
        "byQueue",
        "byPriority",
        "bySize",
        "byUser",
        "byQueueHeld",
        "reasons",
        "stories",
    )
    maps = (
        *maps,
        "waiting",
        "running",
        "wanted",
        *(k for k in as_data(first)["series"] if "By" in k),
    )

    names = {
        *keys_of(as_data(first), maps),
        *keys_of(json.loads(comparison_json([first, second])), maps),
    }

    assert [name for name in sorted(names) if f"`{name}`" not in _with_paths(REFERENCE)] == []


def _with_paths(text: str) -> str:
    """`trace.oddities[]` names `oddities` too."""
    return text.replace("[]`", "`").replace(".", "` `")


def test_every_setting_is_documented() -> None:
    missing = [name for name in sorted(set(setting_names(SimulationSpec))) if name not in GUIDE]

    assert missing == []


def setting_names(cls: Any) -> Iterator[str]:
    hints = get_type_hints(cls)
    for member in fields(cls):
        yield member.metadata.get("name") or json_name(member.name)
        for inner in (hints[member.name], *get_args(hints[member.name])):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from setting_names(inner)


def test_the_settings_shown_are_right() -> None:
    block = GUIDE.split("```yaml\n")[1].split("```")[0]
    assert "kind: Simulation" in block

    check = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {name: budget}\n"
    check += "spec: {controllerName: example.com/budget}\n"
    queues = (queue("research", reserved=1, spot=1), queue("interactive", h100=1), check)
    settings = parse_cluster("---\n".join((block, *queues)), "guide").settings

    assert settings.termination == 30
    assert len(settings.nodes) == 1


def test_every_field_of_a_mapping_and_every_example_is_documented() -> None:
    assert [field for field in FIELDS if f"`{field}`" not in GUIDE] == []
    assert [e.name for e in EXAMPLES if f"| `{e.name}` | {e.summary} |" not in GUIDE] == []


def test_the_example_runs() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "10-simulate.py")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("p95 wait with StrictFIFO:")
