"""`make conformance [SCENARIOS=file or folder ...]`"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.runner import Report, read_scenarios, run, scenario_files
from tests.prerequisites import SHARED

SHOWN = 5


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or [
        SHARED / "conformance",
        SHARED / "placement",
    ]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        print(f"not there: {', '.join(missing)}", file=sys.stderr)
        return 2
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
