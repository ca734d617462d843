"""How many recordings differ with gates of our own, and why: as a table, and for the docs."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.gates import RULES, Differences, Rule, differences_of

FIGURES = Path(__file__).with_name("gate_figures.json")
SHOWN = 5


@dataclass(slots=True)
class GateReport:
    """The counts are of scenarios, but for the heads."""

    gates: Mapping[str, bool]
    total: int = 0
    differing: int = 0
    decided_otherwise: int = 0
    in_further_cycles: int = 0
    heads: Counter[Rule] = field(default_factory=Counter)
    scenarios: Counter[Rule] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def add(self, differences: Differences) -> None:
        self.total += 1
        if not differences:
            return
        self.differing += 1
        self.decided_otherwise += differences.is_decided_otherwise
        self.in_further_cycles += differences.later > 0
        self.heads += differences.rules
        self.scenarios.update(differences.rules.keys())
        self.unexplained += differences.unexplained

    def figures(self) -> dict[str, Any]:
        return {
            "scenarios": self.total,
            "differ": self.differing,
            "decided otherwise": self.decided_otherwise,
            "in further cycles": self.in_further_cycles,
            "rules": {
                rule.name: [self.scenarios[rule], self.heads[rule]]
                for rule in sorted(Rule, key=lambda rule: -self.scenarios[rule])
                if rule in self.scenarios
            },
        }


def gate_report(scenarios: Iterable[Mapping[str, Any]], gates: Mapping[str, bool]) -> GateReport:
    """Placement knows no such gates: its scenarios are left out."""
    report = GateReport(gates)
    for scenario in scenarios:
        if "script" in scenario:
            report.add(differences_of(scenario, gates))
    return report


def parse_gates(text: str) -> list[dict[str, bool]]:
    """`each` for every gate alone and then all; or `OwnersFirst=true,HoldForPreemptor=true`."""
    if text == "each":
        return [*({gate: True} for gate in RULES), dict.fromkeys(RULES, True)]
    gates = {}
    for part in text.split(","):
        name, _, word = part.partition("=")
        if name not in RULES or word not in ("true", "false"):
            raise ArgumentTypeError(f"{part!r}: write {' or '.join(RULES)}, =true or =false")
        gates[name] = word == "true"
    return [gates]


def name_of(gates: Mapping[str, bool]) -> str:
    return ", ".join(name for name, is_on in gates.items() if is_on) or "no gate"


def lines_of(report: GateReport) -> Iterator[str]:
    figures = report.figures()
    yield (
        f"{name_of(report.gates)}: {report.differing} of {report.total} scenarios differ, "
        f"{report.decided_otherwise} in who is admitted or preempted, "
        f"{report.in_further_cycles} in further cycles"
    )
    for name, (scenarios, heads) in figures["rules"].items():
        yield f"  {scenarios:5} scenarios {heads:5} heads  {Rule[name].value}"
    for line in report.unexplained[:SHOWN]:
        yield f"  not explained: {line}"
    if report.unexplained:
        yield f"  {len(report.unexplained)} differences are not explained"


def write_figures(reports: Iterable[GateReport]) -> None:
    figures = {name_of(report.gates): report.figures() for report in reports}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def read_figures() -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures
