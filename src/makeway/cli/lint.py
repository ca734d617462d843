"""check manifests, and advise: mistaken units, jobs that can never run …

Everything that `makeway check` finds, and advice about what is allowed but hardly
meant. Units: memory of 512m (half a byte), 1000 cores. Jobs that even an empty
cluster would not admit, as the engine itself decides. References to queues, flavors,
checks and classes that are not there, objects that nobody uses, quota that nobody
can reach, policies that never take effect or block a queue, queues of a cohort that can
displace each other in a circle. All files are looked at as one set; nothing is said
about kinds that the files have none of.

What can't work is an error, what may be meant is a warning. Needs no server.

examples:
  makeway lint queues.yaml jobs/
  makeway lint --strict examples/
  makeway lint -o json queues.yaml | jq '.warnings[].hint'

exit codes:
  0  no errors, perhaps warnings     1  errors; with --strict also warnings
  2  a file can't be read
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from makeway.cli import advice, circling, prospects
from makeway.cli.advice import Advice, ManifestSet
from makeway.cli.check import Report, add_file_arguments, checked, findings

Rule = Callable[[ManifestSet], Iterator[Advice]]

RULES: tuple[Rule, ...] = (
    advice.duplicates,
    advice.units_of_requests,
    advice.units_of_quotas,
    advice.missing_references,
    advice.missing_references_of_jobs,
    advice.unused_objects,
    advice.namespaces_not_selected,
    advice.lonely_policies,
    advice.circling_policies,
    advice.blocking_policies,
    advice.overridden_policies,
)
# These need to know which of two objects counts.
RULES_OF_UNIQUE: tuple[Rule, ...] = (
    prospects.quota_out_of_reach,
    prospects.flavors_without_quota,
    prospects.jobs_that_never_run,
    circling.circling_cohorts,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser)
    help = "exit with 1 for warnings, too, and refuse kinds that Makeway doesn't know"
    parser.add_argument("--strict", action="store_true", help=help)


def run(arguments: argparse.Namespace) -> int:
    report = checked(arguments, add_advice)
    return 1 if report.errors or (arguments.strict and report.warnings) else 0


def add_advice(report: Report) -> None:
    """Go on where `check` ends: with what could be read, the objects together."""
    files = ManifestSet([view for _, view in report.readable])
    rules = RULES if any(advice.duplicates(files)) else (*RULES, *RULES_OF_UNIQUE)
    found = [piece for rule in rules for piece in rule(files)]
    for piece in sorted(found, key=lambda piece: piece.place):
        manifest = report.readable[piece.place][0]
        told = report.errors if piece.is_error else report.warnings
        told.extend(findings(manifest, (piece.error,)))
