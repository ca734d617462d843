"""Runs files of recorded scenarios and reports per family."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.differences import DeliberateDifference, read_differences
from tests.conformance.placement import run_scenario
from tests.conformance.replay import replay

PLACEMENT = "placement"
SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(slots=True)
class Report:
    passed: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    deliberate: Counter[str] = field(default_factory=Counter)  # by name of the difference
    failures: list[tuple[str, list[str]]] = field(default_factory=list)  # scenario, differences


def scenario_files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.name.endswith(SUFFIXES))
        else:
            yield path


def read_scenarios(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def run(scenarios: Iterable[Mapping[str, Any]], report: Report) -> None:
    declared = read_differences()
    for scenario in scenarios:
        if "script" not in scenario:
            judge_placement(scenario, report)
            continue
        family = scenario["family"]
        report.total[family] += 1
        differences, excuse = judge(scenario, declared)
        if not differences:
            report.passed[family] += 1
            if excuse is not None:
                report.deliberate[excuse] += 1
        else:
            report.failures.append((scenario["id"], differences))


def judge_placement(scenario: Mapping[str, Any], report: Report) -> None:
    """A scenario of gangs on nodes: its expectations are constraints."""
    report.total[PLACEMENT] += 1
    differences = run_scenario(dict(scenario))
    if differences:
        report.failures.append((scenario["id"], differences))
    else:
        report.passed[PLACEMENT] += 1


def judge(
    scenario: Mapping[str, Any], declared: Iterable[DeliberateDifference]
) -> tuple[list[str], str | None]:
    """What differs beyond what is deliberate, and the deliberate difference that was needed."""
    differences = replay(scenario)
    if not differences:
        return [], None
    for difference in declared:
        cycles = difference.cycles_to_compare(scenario)
        if cycles is None:
            continue
        left = replay(scenario, cycles=None if cycles < 0 else cycles)
        if all(d.what in difference.ignore for d in left):
            return [], difference.name
    return [str(d) for d in differences], None
