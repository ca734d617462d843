"""tell why a job does not run, who holds its place, and what would help

Tell why a job waits: what is missing in which flavor, who holds it and whether it
could be taken back, who is ahead, and what would help. Of a job that was stopped,
tell for whom and by which rule. Works for pods, groups of pods and Workloads without
a Job as well. As JSON, `pieces` has the same as `lines`, with a {kind, key} wherever an
object is spoken of.

examples:
  makeway explain 12
  makeway explain workload/train-1 -n vision
  makeway explain @ -o json

exit codes:
  0  printed     1  no such job     2  no server
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from makeway.api.batch import Job, StatusCondition
from makeway.api.kinds import EVENTS, WORKLOADS
from makeway.api.labels import QUEUE_NAME
from makeway.api.meta import Condition, ObjectMeta
from makeway.api.queueing import Workload
from makeway.api.times import parse_time
from makeway.cli import connect
from makeway.cli.command import RequestRefused
from makeway.cli.deleted_jobs import find_present
from makeway.cli.expectations import COMING, forecast_of, lines
from makeway.cli.job_table import Row, indexes_text, moment_text
from makeway.cli.leader import RIGHTS, ask_leader
from makeway.cli.naming import spoken_of
from makeway.cli.references import HELP
from makeway.cli.spans import span_text
from makeway.cli.tables import add_output, print_document, print_sentence
from makeway.client import ApiError, Client, NotFound, Unavailable
from makeway.client.client import Document
from makeway.deploy.installation import Site
from makeway.translate.job_names import short_text
from makeway.translate.job_state import ENDED, NOT_BEGUN, check_texts, condition, is_true, state_of
from makeway.translate.job_targets import JobTarget

EVENTS_SHOWN = 5
REPEATED = "Pending"  # events that say why it waits, as the explanation does at this moment
PODS_ASKED_MAX = 8  # events of so many pods of a group; the rest have the same
_CONDITIONS = ("QuotaReserved", "Admitted", "PodsReady", "Requeued", "Finished")
_LOSSES = ("Evicted", "Preempted")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    add_output(parser, ("text", "json", "yaml"))
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        target = await find_present(client, namespace, arguments.job)
        document = await explanation_of(client, target)
        await _add_forecast(client, target, document)
        if arguments.output in ("json", "yaml"):
            print_document(arguments.output, document)
        else:
            name = "" if target.workload is None else target.workload.metadata.name
            key = f"{target.namespace}/{name}"
            spoken = await spoken_of(client, document, key)
            for number, pieces in enumerate(document["pieces"]):
                print_sentence(spoken.line(pieces))
                if number == 0:
                    for line in _run_lines(spoken.row(key)):
                        print_sentence(line)
        return 0

    return connect.converse(arguments, story)


async def explanation_of(client: Client, target: JobTarget) -> Document:
    """The engine's own explanation where there is one, else what the objects tell."""
    events = await _events(client, target)
    if target.workload is None:
        lines = _without_workload(target.job) if target.job is not None else _pod_lines(target)
        return _document(target.metadata, [*lines, *_event_lines(events)])
    name = target.workload.metadata.name
    try:
        document = await client.get(WORKLOADS, name, target.namespace, subresource="explanation")
    except ApiError as error:
        if not error.may_lack_path:
            raise
        document = await _from_controller(client, target, target.workload)
    # What a check says of itself stands in the Workload alone.
    checks = target.workload.status.admission_checks
    lines = check_texts(check for check in checks if check.message)
    if target.job is not None and not target.workload.spec.active:
        lines.append(f"`makeway resume {short_text(target.job.metadata)}` lets it try again")
    lines += [*_loss_lines(target.workload), *_event_lines(events)]
    document["lines"] += lines
    document["pieces"] += [[line] for line in lines]
    return document


async def _from_controller(client: Client, target: JobTarget, workload: Workload) -> Document:
    """What the leading controller of a cluster says, or at least the state of the Workload."""
    lines = _state_lines(target, workload)
    try:
        path = f"explain/{target.namespace}/{workload.metadata.name}"
        return await ask_leader(client, path)
    except (NotFound, RequestRefused):
        pass  # nobody leads
    except (ApiError, Unavailable):
        lines.append(
            "The controller knows more, but could not be asked; "
            f"you need {RIGHTS} {Site().namespace}"
        )
    return _document(workload.metadata, lines)


async def _add_forecast(client: Client, target: JobTarget, document: Document) -> None:
    """When it starts and ends, if the server knows already: nobody waits for that here."""
    state = state_of(target, time.time())
    if target.workload is None or state.status in ENDED:
        return
    forecast = await forecast_of(client, target.namespace, target.workload.metadata.name)
    if forecast is not None and forecast["verdict"] != COMING:
        document["forecast"] = forecast
        found = lines(forecast, has_started=state.status not in NOT_BEGUN)
        document["lines"] += found
        document["pieces"] += [[line] for line in found]


def _run_lines(row: Row | None) -> Iterator[str]:
    """Of a job that runs: since when, where, and until when at most."""
    if row is None or row["startedAt"] is None or row["status"] != "running":
        return
    parts = [f"since {moment_text(row['startedAt'])} ({span_text(row['runSeconds'])})"]
    for node, devices in row["gpusByNode"].items():
        word = "GPU" if len(devices) == 1 else "GPUs"
        parts.append(f"on {word} {indexes_text(devices)} of node {node}")
    until = row["until"] and f"until {moment_text(row['until'])} at most"
    parts.append(until or "without a time limit")
    yield f"It runs {', '.join(parts)}"


def _document(about: ObjectMeta, lines: list[str]) -> Document:
    return {
        "apiVersion": "makeway.dev/v1",
        "kind": "Explanation",
        "metadata": {"name": about.name, "namespace": about.namespace},
        "lines": lines,
        "pieces": [[line] for line in lines],
    }


def _without_workload(job: Job) -> list[str]:
    name, queue = job.metadata.name, job.metadata.labels.get(QUEUE_NAME)
    if not queue:
        return [
            f"{name} is in no queue: it has no label {QUEUE_NAME}",
            "Makeway leaves such Jobs alone",
        ]
    if is_true(job, "Complete") or is_true(job, "Failed"):
        return [f"{name} has ended, and its Workload is gone"]
    why = state_of(JobTarget(job, None), time.time()).reason
    return [f"{name} shall go to LocalQueue {queue}; {why}"]


def _pod_lines(target: JobTarget) -> list[str]:
    """Pods that have no Workload yet."""
    state = state_of(target, time.time())
    return [f"{target.text} shall go to LocalQueue {state.queue}; {state.reason}"]


def _state_lines(target: JobTarget, workload: Workload) -> list[str]:
    """The state by its conditions, for servers that explain nothing themselves."""
    state = state_of(target, time.time())
    reason = f": {state.reason}" if state.reason else ""
    found = (condition(workload, type_) for type_ in _CONDITIONS)
    lines = (_condition_line(entry) for entry in found if entry is not None)
    return [f"{target.name} is {state.status}{reason}", *lines]


def _loss_lines(workload: Workload) -> list[str]:
    """Who took its place: that it was stopped, and for whom."""
    found = [condition(workload, type_) for type_ in _LOSSES if is_true(workload, type_)]
    by_message = {entry.message: entry for entry in found if entry is not None}
    lines = [_condition_line(entry) for entry in by_message.values()]
    return ["It was stopped before:", *(f"- {line}" for line in lines)] if lines else []


def _condition_line(found: Condition | StatusCondition) -> str:
    since = found.last_transition_time
    ago = "" if since is None else f", {span_text(time.time() - since)} ago"
    message = " ".join(found.message.split())
    return f"{found.type}={found.status} ({found.reason}{ago}): {message}"


async def _events(client: Client, target: JobTarget) -> list[Document]:
    """The latest about the Job or pods and their Workload, oldest first."""
    found: list[Document] = []
    for part in (target.job, target.workload, *target.pods[:PODS_ASKED_MAX]):
        if part is not None:
            selector = f"involvedObject.uid={part.metadata.uid}"
            listing = await client.list(EVENTS, target.namespace, field_selector=selector)
            found += listing.items
    told = (event for event in found if event.get("reason") != REPEATED)
    return sorted(told, key=_when)[-EVENTS_SHOWN:]


def _when(event: Document) -> tuple[str, int]:
    """Times are whole seconds; within one, the order of writing tells."""
    revision = event["metadata"].get("resourceVersion") or ""
    return event.get("lastTimestamp") or "", int(revision) if revision.isdecimal() else 0


def _event_lines(events: list[Document]) -> list[str]:
    lines = []
    for event in events:
        at = event.get("lastTimestamp")
        ago = f"{span_text(time.time() - parse_time(at))} ago, " if at else ""
        message = " ".join((event.get("message") or "").split())
        lines.append(f"- {ago}{event.get('reason') or ''}: {message}")
    return ["What happened to it last:", *lines] if lines else []
