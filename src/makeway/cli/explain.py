"""`makeway explain`: why a job does not run, and who took its place."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

from makeway.api.labels import QUEUE_NAME
from makeway.cli import connect
from makeway.cli.command import Command
from makeway.cli.reading import (
    Document,
    condition,
    is_so,
    items_at,
    label,
    moment_at,
    name_of,
    text_at,
    uid_of,
)
from makeway.cli.references import HELP, Target, find_target
from makeway.cli.spans import span_text
from makeway.cli.standing import check_texts, short_text, standing_of, standing_without_job
from makeway.cli.tables import add_output, print_document, print_safely
from makeway.client import ApiError, Client, NotFound, Unavailable
from makeway.client.resources import EVENTS, JOBS, LEASES, PODS, WORKLOADS
from makeway.deploy.objects import LEASE, PORT, Site

EVENTS_SHOWN = 5
JOBS_ASKED_MAX = 30  # whose names are looked up
PODS_ASKED_MAX = 8  # of a group; what is said about all is said about its first pods
_CONDITIONS = ("QuotaReserved", "Admitted", "PodsReady", "Requeued", "Finished")
_LOSSES = ("Evicted", "Preempted")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help=HELP)
    add_output(parser, ("text", "json", "yaml"))
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        target = await find_target(client, namespace, arguments.job)
        document = await explanation_of(client, target)
        if arguments.output in ("json", "yaml"):
            print_document(arguments.output, document)
        else:
            names = await _jobs_in(client, document)
            for pieces in document["pieces"]:
                print_safely("".join(_shown(piece, names) for piece in pieces))
        return 0

    return connect.converse(arguments, story)


async def explanation_of(client: Client, target: Target) -> Document:
    """The engine's own explanation where there is one, else what the objects tell."""
    events = await _events(client, target)
    if target.workload is None:
        lines = _without_workload(target.job) if target.job is not None else _pod_lines(target)
        about = target.job if target.job is not None else target.pods[0]
        return _document(about, [*lines, *_event_lines(events)])
    name = name_of(target.workload)
    try:
        document = await client.get(WORKLOADS, name, target.namespace, subresource="explanation")
    except NotFound:
        document = await _from_controller(client, target, target.workload)
    # What a check says of itself stands in the Workload alone.
    checks = items_at(target.workload, "status", "admissionChecks")
    told = [check for check in checks if text_at(check, "message")]
    lines = check_texts({"status": {"admissionChecks": told}})
    if target.job is not None and target.workload["spec"].get("active") is False:
        lines.append(f"`makeway resume {short_text(target.job)}` lets it try again")
    lines += [*_loss_lines(target.workload), *_event_lines(events)]
    document["lines"] += lines
    document["pieces"] += [[line] for line in lines]
    return document


async def _from_controller(client: Client, target: Target, workload: Document) -> Document:
    """What the leading controller of a cluster says, or at least how the Workload stands.

    The API server hands the question on to a pod, for those who may use its proxy.
    """
    home, path = Site().namespace, f"explain/{target.namespace}/{name_of(workload)}"
    lines = _standing_lines(target)
    try:
        lease = await client.get(LEASES, LEASE, home)
        pod, _, _ = text_at(lease, "spec", "holderIdentity").partition("_")
        return await client.get(PODS, f"{pod}:{PORT}", home, subresource=f"proxy/{path}")
    except NotFound:
        pass  # no controller lives there
    except (ApiError, Unavailable):
        where = f"port {PORT} of service/makeway-metrics in namespace {home}, at /{path}"
        lines.append(f"The controller knows more, but could not be asked: {where}")
    return _document(workload, lines)


# --- whose job a Workload is ---


async def _jobs_in(client: Client, document: Document) -> dict[str, str]:
    """What users call the Workloads that an explanation speaks of, by key of the Workload."""
    pieces = [piece for line in document["pieces"] for piece in line if isinstance(piece, dict)]
    keys = dict.fromkeys(text_at(p, "key") for p in pieces if p.get("kind") == "Workload")
    found: dict[str, str] = {}
    for key in list(keys)[:JOBS_ASKED_MAX]:
        namespace, _, name = key.partition("/")
        try:
            workload = await client.get(WORKLOADS, name, namespace)
            for owner in items_at(workload, "metadata", "ownerReferences"):
                if owner.get("kind") == "Job":
                    job = await client.get(JOBS, text_at(owner, "name"), namespace)
                    found[key] = " ".join(("job", *dict.fromkeys((short_text(job), name_of(job)))))
        except NotFound:
            continue  # it has gone meanwhile
    return found


def _shown(piece: str | Document, names: Mapping[str, str]) -> str:
    """`default/job-train-57820` becomes `job 12 train (default/job-train-57820)`."""
    if isinstance(piece, str):
        return piece
    key = text_at(piece, "key")
    is_job = piece.get("kind") == "Workload" and key in names
    return f"{names[key]} ({key})" if is_job else key


def _document(about: Document, lines: list[str]) -> Document:
    metadata = {key: about["metadata"].get(key) for key in ("name", "namespace")}
    return {
        "apiVersion": "makeway.dev/v1",
        "kind": "Explanation",
        "metadata": metadata,
        "lines": lines,
        "pieces": [[line] for line in lines],
    }


def _without_workload(job: Document) -> list[str]:
    queue = label(job, QUEUE_NAME)
    if not queue:
        return [
            f"{name_of(job)} is in no queue: it has no label {QUEUE_NAME}",
            "Makeway leaves such Jobs alone",
        ]
    if is_so(job, "Complete") or is_so(job, "Failed"):
        return [f"{name_of(job)} has ended, and its Workload is gone"]
    return [f"{name_of(job)} shall go to LocalQueue {queue}; no Workload was made for it yet"]


def _pod_lines(target: Target) -> list[str]:
    """Pods that have no Workload yet."""
    standing = standing_without_job(target.pods, None, time.time())
    return [f"{target.text} shall go to LocalQueue {standing.queue}; {standing.reason}"]


def _standing_lines(target: Target) -> list[str]:
    """How it stands by its conditions, for servers that explain nothing themselves."""
    workload = target.workload or {}
    lines = []
    if target.job is not None:
        standing = standing_of(target.job, workload, time.time())
    else:
        standing = standing_without_job(target.pods, workload, time.time())
    reason = f": {standing.reason}" if standing.reason else ""
    lines.append(f"{standing.name} is {standing.status}{reason}")
    for type_ in _CONDITIONS:
        found = condition(workload, type_)
        if found is not None:
            lines.append(_condition_line(found))
    return lines


def _loss_lines(workload: Document) -> list[str]:
    """Who took its place: that it was stopped, and for whom."""
    found = [condition(workload, type_) for type_ in _LOSSES if is_so(workload, type_)]
    by_message = {text_at(entry, "message"): entry for entry in found if entry is not None}
    lines = [_condition_line(entry) for entry in by_message.values()]
    return ["It was stopped before:", *(f"- {line}" for line in lines)] if lines else []


def _condition_line(found: Document) -> str:
    since = moment_at(found, "lastTransitionTime")
    ago = "" if since is None else f", {span_text(time.time() - since)} ago"
    message = " ".join(text_at(found, "message").split())
    reason = text_at(found, "reason")
    return f"{text_at(found, 'type')}={text_at(found, 'status')} ({reason}{ago}): {message}"


async def _events(client: Client, target: Target) -> list[Document]:
    """The latest about the Job or pods and their Workload, oldest first."""
    found: list[Document] = []
    for document in (target.job, target.workload, *target.pods[:PODS_ASKED_MAX]):
        if document is not None:
            selector = f"involvedObject.uid={uid_of(document)}"
            listing = await client.list(EVENTS, target.namespace, field_selector=selector)
            found += listing.items
    return sorted(found, key=_when)[-EVENTS_SHOWN:]


def _when(event: Document) -> tuple[str, int]:
    """Times are whole seconds; within one, the order of writing tells."""
    revision = text_at(event, "metadata", "resourceVersion")
    return text_at(event, "lastTimestamp"), int(revision) if revision.isdecimal() else 0


def _event_lines(events: list[Document]) -> list[str]:
    lines = []
    for event in events:
        at = moment_at(event, "lastTimestamp")
        ago = "" if at is None else f"{span_text(time.time() - at)} ago, "
        message = " ".join(text_at(event, "message").split())
        lines.append(f"- {ago}{text_at(event, 'reason')}: {message}")
    return ["What happened to it last:", *lines] if lines else []


COMMAND = Command(
    name="explain",
    summary="tell why a job does not run, who holds its place, and what would help",
    description="""\
Tell why a job waits: what is missing in which flavor, who holds it and whether it
could be taken back, who is ahead, and what would help. Of a job that was stopped,
tell for whom and by which rule. Works for pods, groups of pods and Workloads without
a Job as well. As JSON, `pieces` has the same as `lines`, with a {kind, key} wherever an
object is spoken of.
""",
    examples="""\
examples:
  makeway explain 12
  makeway explain workload/train-1 -n vision
  makeway explain @ -o json

exit codes:
  0  printed     1  no such job     2  no server
""",
    add_arguments=add_arguments,
    run=run,
)
