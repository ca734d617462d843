"""check manifests: every error with file, line and what would be right

Check manifests without applying them. Reads queue objects of both Kueue API
versions, Jobs and what goes with them, and prints every error with its file and
line, the field, what was written there, and what would be right. All files are
checked as one set, so a cycle of cohorts over two files is found as well.

Fields that Makeway accepts but does not act on are warnings: they do no harm,
but they do nothing either. Kinds that other programs read (a Deployment, a
ConfigMap) are passed over, and counted at the end; --strict refuses them. The
Jobs of a CronJob are checked like Jobs.

examples:
  makeway check queues.yaml
  makeway check examples/
  kustomize build . | makeway check -
  makeway check --data-dir /mnt/backups/monday
  makeway check --strict queues.yaml
  makeway check -o json queues.yaml | jq '.errors[].path'

exit codes:
  0  no errors, perhaps warnings     1  errors     2  a file can't be read
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from makeway.api.errors import ABSENT, FieldError, Unsupported, in_words
from makeway.api.intake import Intake, take_in
from makeway.api.kinds import KINDS, UNSUPPORTED_KINDS, View
from makeway.api.manifests import Manifest, Position, read_manifests
from makeway.api.schema import Document
from makeway.api.validation import validate_set
from makeway.api.versions import CONFIGURATION_GROUP, QUEUEING_GROUP, split_api_version
from makeway.cli.command import UsageError
from makeway.cli.tables import add_output, counted, print_document, print_safely
from makeway.sim.settings import Simulation, read_settings

CRON_JOB = ("batch", "CronJob")
OUR_GROUPS = (QUEUEING_GROUP, CONFIGURATION_GROUP, "makeway.dev")  # a kind of ours may be misspelt
_TEMPLATE = "spec.jobTemplate."
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    position: Position
    subject: str  # ClusterQueue/vision; empty where the text is no object
    what: FieldError | Unsupported

    def __str__(self) -> str:
        subject = f" {self.subject}:" if self.subject else ""
        return f"{self.position}:{subject} {self.what}"

    def as_json(self) -> dict[str, object]:
        row: dict[str, object] = {
            "file": self.position.source,
            "line": self.position.line or None,
            "object": self.subject or None,
            "path": self.what.path or None,
        }
        match self.what:
            case FieldError():
                if self.what.value is not ABSENT:
                    row["value"] = self.what.value
                row["problem"] = self.what.problem
                row["hint"] = self.what.hint or None
            case Unsupported():
                row["reason"] = self.what.reason
                row["problem"] = f"accepted, but Makeway does not act on it ({self.what.what})"
        return row


@dataclass(slots=True)
class Report:
    objects: int = 0
    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    readable: list[tuple[Manifest, View]] = field(default_factory=list)  # what could be read
    passed_over: list[str] = field(default_factory=list)  # kinds that others read


def check_texts(texts: Iterable[tuple[str, str]], *, is_strict: bool = True) -> Report:
    """Check texts, given with the names of their files, by themselves and with each other."""
    report = Report()
    for source, text in texts:
        found = read_manifests(text, source)
        for trouble in found.troubles:
            report.errors.append(Finding(position=trouble.position, subject="", what=trouble.error))
        for manifest in found.manifests:
            report.objects += 1
            if manifest.document.get("kind") == Simulation.KIND:
                report.errors += findings(manifest, read_settings(manifest.document)[1])
                continue
            if not is_strict and is_of_others(manifest.document):
                report.passed_over.append(str(manifest.document["kind"]))
                continue
            intake = _take_in(manifest.document)
            report.errors += findings(manifest, intake.errors)
            report.warnings += findings(manifest, intake.unsupported)
            if intake.readable is not None:
                report.readable.append((manifest, intake.readable))
    for between in validate_set([view for _, view in report.readable]):
        report.errors += findings(report.readable[between.index][0], (between.error,))
    return report


def is_of_others(document: Document) -> bool:
    """Whether it is of a kind that Makeway doesn't know and has no reason to."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        return False
    group, _ = split_api_version(api_version)
    is_known = (group, kind) in KINDS or (group, kind) in (*UNSUPPORTED_KINDS, CRON_JOB)
    return not is_known and group not in OUR_GROUPS


def _take_in(document: Document) -> Intake:
    """Of a CronJob, its Jobs are checked: they are what is queued."""
    api_version, spec = document.get("apiVersion"), document.get("spec")
    is_cron_job = (api_version, document.get("kind")) == ("batch/v1", CRON_JOB[1])
    template = spec.get("jobTemplate") if isinstance(spec, dict) else None
    if not is_cron_job or not isinstance(template, dict):
        return take_in(document)
    metadata = {**(template.get("metadata") or {}), "name": "job"}
    found = take_in({"apiVersion": api_version, "kind": "Job", **template, "metadata": metadata})
    return replace(
        found,
        errors=tuple(replace(e, path=f"{_TEMPLATE}{e.path}") for e in found.errors),
        unsupported=tuple(replace(u, path=f"{_TEMPLATE}{u.path}") for u in found.unsupported),
        readable=None,
    )


def findings(manifest: Manifest, found: Iterable[FieldError | Unsupported]) -> Iterator[Finding]:
    for what in found:
        yield Finding(
            position=manifest.locate(what.path), subject=_subject(manifest.document), what=what
        )


def _subject(document: Document) -> str:
    """Kind and name, as far as the document has them."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    parts = (document.get("kind"), name)
    return "/".join(part for part in parts if isinstance(part, str) and part)


# --- files ---


def read_texts(names: Iterable[str], unread: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what can be read, with its name; what can't is noted in `unread`."""
    for name in names:
        if name == STDIN:
            yield from _decoded("<stdin>", sys.stdin.buffer.read(), unread)
            continue
        path = Path(name)
        try:
            found = _manifests_in(path) if path.is_dir() else [path]
        except OSError as error:
            unread.append(f"{path}: {in_words(error)}")
            continue
        if not found:
            unread.append(f"{path}: no {', '.join(SUFFIXES)} files in this folder")
        for file in found:
            try:
                content = file.read_bytes()
            except OSError as error:
                unread.append(f"{file}: {in_words(error)}")
            except ValueError as error:  # a name with a null byte
                unread.append(f"{str(file)!r}: {error}")
            else:
                yield from _decoded(str(file), content, unread)


def _manifests_in(folder: Path) -> list[Path]:
    """The files of a folder and the folders in it, but for hidden ones."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    )


def _decoded(name: str, content: bytes, unread: list[str]) -> Iterator[tuple[str, str]]:
    try:
        yield name, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        unread.append(f"{name}: not text in UTF-8 (byte {error.start})")


# --- the command ---


FILES_HELP = "a YAML or JSON file, a folder of them, or - for standard input"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("files", metavar="FILE", nargs="*", default=[], help=FILES_HELP)
    what.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="examine a data folder of `makeway up` instead: database, identity, files of pods",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse kinds that Makeway doesn't know"
    )
    add_output(parser, ("text", "json"))


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=FILES_HELP)
    add_output(parser, ("text", "json"))


def run(arguments: argparse.Namespace) -> int:
    if arguments.data_dir is not None:
        return examined(arguments.data_dir)
    return 1 if checked(arguments).errors else 0


def examined(folder: Path) -> int:
    """Say what is wrong with a data folder that nobody serves."""
    from makeway.embedded.copies import examine
    from makeway.embedded.settings import CannotServe

    try:
        found = examine(folder)
    except CannotServe as error:
        raise UsageError(f"{error}; check a `makeway backup` of it instead") from None
    except (OSError, ValueError) as error:
        why = in_words(error) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{str(folder)!r} can't be examined: {why}") from None
    for text in found:
        print_safely(f"error: {text}")
    print(counted(len(found), "error"))
    return 1 if found else 0


def checked(
    arguments: argparse.Namespace, advise: Callable[[Report], None] | None = None
) -> Report:
    """Check the files that were named, let `advise` go on, and print what was found."""
    unread: list[str] = []
    report = check_texts(read_texts(arguments.files, unread), is_strict=arguments.strict)
    if advise is not None:
        advise(report)
    if arguments.output == "json":
        _print_json(report)
    elif report.objects or report.errors or not unread:  # nothing, where nothing could be read
        _print_text(report)
    if unread:
        raise UsageError("\nmakeway: ".join(unread))
    return report


def _print_json(report: Report) -> None:
    rows = {
        "objects": report.objects,
        "errors": [finding.as_json() for finding in report.errors],
        "warnings": [finding.as_json() for finding in report.warnings],
        "passedOver": report.passed_over,
    }
    print_document("json", rows)


def _print_text(report: Report) -> None:
    for word, findings in (("error", report.errors), ("warning", report.warnings)):
        for finding in findings:
            print_safely(f"{word}: {finding}")
    errors, warnings = len(report.errors), len(report.warnings)
    counts = ((report.objects, "object"), (errors, "error"), (warnings, "warning"))
    others = ", ".join(sorted(set(report.passed_over)))
    passed_over = f"; passed over: {len(report.passed_over)} ({others})" if others else ""
    print(", ".join(counted(*count) for count in counts) + passed_over)
