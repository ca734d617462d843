"""Sees every state that any object ever had, in order: it reads the history that etcd keeps.

It asks neither the API server nor anything of Makeway. A watch through the server would not do: it
is blind while the server is down, and what begins and ends meanwhile it never hears of. Amounts are
whole CPUs, as the stories have them.
"""

import base64
import json
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Document = dict[str, Any]

PATIENCE_S = 60.0
MARK = "/history"  # a key of our own; where it stands, history ends for now
PLURALS = ("workloads", "jobs", "pods")
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
OVER = ("Succeeded", "Failed")


class Change(NamedTuple):
    revision: int
    plural: str
    name: str
    after: Document | None  # None: it is gone


@dataclass
class Account:
    """What all that happened comes to."""

    admissions: Counter[str] = field(default_factory=Counter)  # by name and uid of the Workload
    evictions: Counter[str] = field(default_factory=Counter)
    finished: set[str] = field(default_factory=set)  # Workloads, by name and uid
    reserved_max: Counter[str] = field(default_factory=Counter)  # CPUs at once, by ClusterQueue
    pods_of: Counter[str] = field(default_factory=Counter)  # that there ever were, by Job
    pods_max: Counter[str] = field(default_factory=Counter)  # not over, at once, by queue name
    alive: set[str] = field(default_factory=set)  # Workloads that there are, by name


class EtcdHistory:
    def __init__(self, etcd: str, namespace: str) -> None:
        self._etcd, self._namespace = etcd, namespace
        self._seen_to = self._mark()
        self.changes: list[Change] = []

    def catch_up(self) -> None:
        """Take in what happened since; before history is thrown away, and at the end."""
        end = self._mark()
        for revision, key, value in self._history(self._seen_to + 1, end):
            plural, namespace, name = ("", *key.split("/"))[-3:]
            if namespace == self._namespace and plural in PLURALS:
                self.changes.append(Change(revision, plural, name, value))
        self._seen_to = end

    def compact(self) -> None:
        """Have etcd throw away all history but the latest state."""
        self.catch_up()
        self._post("/v3/kv/compaction", {"revision": str(self._seen_to), "physical": True})

    def account(self) -> Account:
        self.catch_up()
        return account_of(self.changes)

    # Reading etcd

    def _mark(self) -> int:
        """The revision that is the latest now."""
        answer = self._post("/v3/kv/put", {"key": _encoded(MARK), "value": _encoded("here")})
        return int(answer["header"]["revision"])

    def _history(self, start: int, end: int) -> Iterator[tuple[int, str, Document | None]]:
        whole = {"key": _encoded("/"), "range_end": _encoded("0"), "start_revision": str(start)}
        with self._open("/v3/watch", {"create_request": whole}) as stream:
            for line in stream:
                result = json.loads(line)["result"]
                assert not result.get("canceled"), f"history was lost: {result}"
                for event in result.get("events") or ():
                    key, pair = _decoded(event["kv"]["key"]).decode(), event["kv"]
                    revision = int(pair["mod_revision"])
                    if revision >= end:
                        return
                    if f"/{PLURALS[0]}/" in key or key.split("/")[2] in PLURALS:
                        value = pair.get("value")
                        yield revision, key, None if value is None else json.loads(_decoded(value))

    def _post(self, path: str, body: Document) -> Document:
        with self._open(path, body) as answer:
            found: Document = json.loads(answer.read())
            return found

    def _open(self, path: str, body: Document) -> Any:
        request = urllib.request.Request(self._etcd + path, data=json.dumps(body).encode())
        return urllib.request.urlopen(request, timeout=PATIENCE_S)


def account_of(changes: Iterable[Change]) -> Account:
    telling = _Telling()
    for change in changes:
        telling.hear(change)
    return telling.account


class _Telling:
    """Goes through history once."""

    def __init__(self) -> None:
        self.account = Account()
        self._holds: dict[str, tuple[str, int]] = {}  # Workload -> ClusterQueue and CPUs
        self._reserved: Counter[str] = Counter()
        self._queue_of: dict[str, str] = {}  # of Jobs, by name
        self._running: dict[str, str] = {}  # pods that are not over -> queue name
        self._pods: Counter[str] = Counter()
        self._known: set[str] = set()  # pods, by uid

    def hear(self, change: Change) -> None:
        match change.plural:
            case "workloads":
                self._hear_workload(change.name, change.after)
            case "jobs" if change.after is not None:
                labels = change.after["metadata"].get("labels") or {}
                self._queue_of[change.name] = labels.get(QUEUE_NAME, "")
            case "pods":
                self._hear_pod(change.name, change.after)

    def _hear_workload(self, name: str, document: Document | None) -> None:
        before, after = self._holds.pop(name, None), None
        if document is None:
            self.account.alive.discard(name)
        else:
            who = f"{name} {document['metadata']['uid']}"
            self.account.alive.add(name)
            after = held_by(document)
            if after is not None:
                self._holds[name] = after
            if is_true(document, "Finished"):
                self.account.finished.add(who)
            elif before is None and after is not None:
                self.account.admissions[who] += 1
            elif before is not None and not gives_back(before, after):
                self.account.evictions[who] += 1
        for held, sign in ((before, -1), (after, 1)):
            if held is not None:
                self._reserved[held[0]] += sign * held[1]
        self.account.reserved_max |= self._reserved

    def _hear_pod(self, name: str, document: Document | None) -> None:
        queue = self._running.pop(name, None)
        if queue is not None:
            self._pods[queue] -= 1
        if document is None:
            return
        metadata = document["metadata"]
        job = (metadata.get("labels") or {}).get("batch.kubernetes.io/job-name", "")
        if metadata["uid"] not in self._known:
            self._known.add(metadata["uid"])
            self.account.pods_of[job] += 1
        if document["status"].get("phase") not in OVER:
            self._running[name] = self._queue_of[job]
            self._pods[self._queue_of[job]] += 1
            self.account.pods_max |= self._pods


def is_true(document: Document, condition: str) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def held_by(workload: Document) -> tuple[str, int] | None:
    """Which ClusterQueue gives it how many CPUs; None if it holds no quota.

    Pods that have succeeded give theirs back before their Job is seen to be complete.
    """
    status = workload.get("status") or {}
    admission = status.get("admission")
    if not admission or not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return None
    given_back = {pods["name"]: pods["count"] for pods in status.get("reclaimablePods") or ()}
    cpus = 0
    for assigned in admission["podSetAssignments"]:
        count, usage = assigned["count"], int(assigned["resourceUsage"]["cpu"])
        cpus += usage * max(0, count - given_back.get(assigned["name"], 0)) // count
    return admission["clusterQueue"], cpus


def gives_back(before: tuple[str, int], after: tuple[str, int] | None) -> bool:
    """Whether it goes on holding the quota that it held, or less of it."""
    return after is not None and after[0] == before[0] and after[1] <= before[1]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
