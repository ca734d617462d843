"""`make conformance [SCENARIOS=file or folder ...] [GATES=OwnersFirst=true | each]`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.gate_report import gate_report, lines_of, parse_gates, write_figures
from tests.conformance.runner import Report, read_scenarios, run, scenario_files
from tests.prerequisites import SHARED

SHOWN = 5


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    paths = [Path(path) for path in options.paths] or [
        SHARED / "conformance",
        SHARED / "placement",
    ]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"not there: {', '.join(missing)}", file=sys.stderr)
        return 2
    if options.gates is None:
        return compare(paths)
    return compare_gates(paths, options.gates, options.write)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("paths", nargs="*", help="files or folders of scenarios")
    parser.add_argument(
        "--gates",
        type=parse_gates,
        help="how the answers differ with gates that Kueue lacks: OwnersFirst=true, or each",
    )
    parser.add_argument("--write", action="store_true", help="keep those figures for the docs")
    return parser


def compare(paths: list[Path]) -> int:
    report = Report()
    for path in scenario_files(paths):
        before = dict(report.total)
        run(read_scenarios(path), report)
        for family in report.total:
            if report.total[family] != before.get(family):
                print(f"{family} {report.passed[family]}/{report.total[family]}", flush=True)
    for name, count in sorted(report.deliberate.items()):
        print(f"  {count} of these differ on purpose: {name}")
    for scenario, differences in report.failures[:SHOWN]:
        print(f"\n{scenario}")
        for difference in differences[:3]:
            print(f"  {difference}")
    if len(report.failures) > SHOWN:
        print(f"\n... and {len(report.failures) - SHOWN} more")
    passed, total = sum(report.passed.values()), sum(report.total.values())
    print(f"\n{passed} passed, {total - passed} failed")
    return 0 if total and passed == total else 1


def compare_gates(paths: list[Path], sets_of_gates: list[dict[str, bool]], writes: bool) -> int:
    reports = []
    for gates in sets_of_gates:
        reports.append(gate_report(_scenarios(paths), gates))
        print("\n".join(lines_of(reports[-1])), flush=True)
    if writes:
        write_figures(reports)
    is_explained = all(report.total and not report.unexplained for report in reports)
    return 0 if is_explained else 1


def _scenarios(paths: list[Path]) -> Iterator[Mapping[str, Any]]:
    for path in scenario_files(paths):
        yield from read_scenarios(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
