"""What people may not write, though a role lets them write the kind: whatever would take a job past
its queue, or make it somebody else's.

Admins are not asked; nor are our own controllers, which write through the same verbs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import (
    CRON_JOBS,
    JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    Resource,
)
from makeway.api.labels import (
    ACCOUNT,
    ACCOUNT_UID,
    ARRAY,
    ARRAY_INDEX,
    CANCELLED_BY,
    DEFAULT,
    EVERYONE,
    FOR,
    ID,
    OURS,
    PREEMPTION_PRIORITY_CLASS,
    PRIORITY_CLASS,
    SUBMITTED_BY,
    WRITTEN_BY_PEOPLE,
)
from makeway.api.priorities import SYSTEM_PRIORITIES
from makeway.server import errors, rbac
from makeway.server.access import Access, Ask
from makeway.server.errors import ApiError
from makeway.server.messages import decode
from makeway.server.numbers import Numbers
from makeway.server.objects import Target
from makeway.server.people import Person
from makeway.server.unfinished import Unfinished
from makeway.store import Key, Store

Document = Mapping[str, Any]
SCHEDULERS = (None, "", "default-scheduler")
_RUNS = (JOBS, PODS)  # kinds of which processes are made
_NEED_ACCOUNT = (JOBS.full_name, PODS.full_name, CRON_JOBS.full_name)
_OF_KUBERNETES = ("batch.kubernetes.io/job-tracking",)  # a finalizer by which pods are counted


class _Part(NamedTuple):
    """A part of an object that becomes an object: itself, or a template in it."""

    path: str  # empty for the object itself
    metadata: Document
    pod: Document | None  # the spec of a pod; None: there is none in it


class PeopleRules:
    def __init__(self, store: Store, access: Access, unfinished_max: int) -> None:
        self._store, self._access, self._unfinished_max = store, access, unfinished_max
        self._numbers = Numbers(store)
        self._unfinished = {kind.full_name: Unfinished(store, kind.full_name) for kind in _RUNS}

    def check(self, person: Person, target: Target, old: Document | None, new: Document) -> None:
        """Refuse a write of a person; `old` is None where the object is new.

        A new object is looked at as it was written, before the server has filled anything in.
        """
        resource = target.resource
        if resource is NAMESPACES:
            _check_namespace(target, old, new)
        if resource.group == rbac.GROUP:
            self._access.check_write(person, resource.kind, target.namespace, new)
        if old is None and resource.full_name in _NEED_ACCOUNT:
            self._check_account(target)
            self._check_number_of(target)
        _check_cancelled_by(person, target, old or {}, new)
        if person.is_admin:
            return
        found = list(self._problems(resource, old, new))
        if found:
            raise _forbidden(resource, new["metadata"]["name"], found)
        self._check_priorities(person, target, old, new)

    def take_number(self) -> int:
        """For an array, which has one."""
        return self._numbers.take()

    def sign(
        self, person: Person, target: Target, new: dict[str, Any], array: int | None = None
    ) -> None:
        """What people don't write themselves on a new job: who submitted it, and its number."""
        if target.resource in _RUNS:
            metadata = new["metadata"]
            labels = metadata.get("labels") or {}
            if array is None:
                numbered = {ID: str(self._numbers.take())}
            else:
                numbered = {ARRAY: str(array), ID: f"{array}_{labels[ARRAY_INDEX]}"}
            metadata["labels"] = {**labels, **numbered}
        if target.resource in (*_RUNS, CRON_JOBS):
            metadata = new["metadata"]
            signed = {SUBMITTED_BY: person.name, ACCOUNT: self._account(target.namespace)}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **signed}

    def _account(self, namespace: str) -> str:
        """Whose a namespace is; empty if nobody's."""
        found = self._store.latest(Key(NAMESPACES.full_name, "", namespace))
        owner = None if found is None else account_of(decode(found.body))
        return "" if owner is None else owner[0]

    def _check_account(self, target: Target) -> None:
        """Processes run as the account of their namespace, so where there is none, none run."""
        if not self._account(target.namespace):
            why = f"namespace {target.namespace} belongs to no account, so nothing runs there"
            raise errors.forbidden(target.resource, target.name, why)

    def _check_number_of(self, target: Target) -> None:
        """An account has so many jobs and pods that have not ended, and no more."""
        counted = self._unfinished.get(target.resource.full_name)
        if counted is not None and counted.reaches(target.namespace, self._unfinished_max):
            why = f"{target.namespace} has {self._unfinished_max} of them that have not ended"
            raise errors.forbidden(target.resource, target.name, f"{why}, which is the limit")

    def _problems(
        self, resource: Resource, old: Document | None, new: Document
    ) -> Iterator[FieldError]:
        before = {part.path: part for part in _parts(resource, old or {})}
        for part in _parts(resource, new):
            was = before.get(part.path, _Part(part.path, {}, None))
            yield from _metadata_problems(part, was, is_job=resource is JOBS)
            yield from _pod_problems(part, was)
        if resource in _RUNS:
            yield from _gate_problems(new, old)

    # Priorities

    def _check_priorities(
        self, person: Person, target: Target, old: Document | None, new: Document
    ) -> None:
        known = set(_classes_named(target.resource, old or {}))
        for named in _classes_named(target.resource, new):
            if named not in known:
                self._check_class(person, target, named)

    def _check_class(self, person: Person, target: Target, named: _Named) -> None:
        classes = [(kind, self._class(kind, named.name)) for kind in named.kinds]
        if not any(found for _, found in classes):
            why = f"{named.path}: there is no class {named.name}"
            raise errors.forbidden(target.resource, target.name, why)
        for kind, found in classes:
            if found is None or found.value <= self._default(kind) or found.is_for_everyone:
                continue
            ask = Ask(verb="use", group=kind.group, resource=kind.plural, name=named.name)
            if not self._access.allows(person, ask):
                why = (
                    f"{named.path}: {named.name} has the value {found.value}, above the default; "
                    f'who uses it needs the verb "use" on {kind.full_name} "{named.name}"'
                )
                raise errors.forbidden(target.resource, target.name, why)

    def _class(self, kind: Resource, name: str) -> _Class | None:
        if kind is PRIORITY_CLASSES and name in SYSTEM_PRIORITIES:
            return _Class(SYSTEM_PRIORITIES[name], False)
        found = self._store.latest(Key(kind.full_name, "", name))
        if found is None:
            return None
        document = decode(found.body)
        labels = document["metadata"].get("labels") or {}
        return _Class(int(document.get("value") or 0), labels.get(FOR) == EVERYONE)

    def _default(self, kind: Resource) -> int:
        """The value that who names no class has."""
        if kind is WORKLOAD_CLASSES and (found := self._class(kind, DEFAULT)) is not None:
            return found.value
        classes = (decode(r.body) for r in self._store.scan(PRIORITY_CLASSES.full_name))
        return min((int(c["value"]) for c in classes if c.get("globalDefault")), default=0)


class _Class(NamedTuple):
    value: int
    is_for_everyone: bool


class _Named(NamedTuple):
    """A priority class that an object names."""

    path: str
    name: str
    kinds: tuple[Resource, ...]


def _classes_named(resource: Resource, document: Document) -> Iterator[_Named]:
    for part in _parts(resource, document):
        labels, annotations = (part.metadata.get(k) or {} for k in ("labels", "annotations"))
        here = f"{part.path}metadata"
        if name := labels.get(PRIORITY_CLASS):
            yield _Named(f"{here}.labels[{PRIORITY_CLASS}]", name, (WORKLOAD_CLASSES,))
        if name := annotations.get(PREEMPTION_PRIORITY_CLASS):
            path = f"{here}.annotations[{PREEMPTION_PRIORITY_CLASS}]"
            yield _Named(path, name, (WORKLOAD_CLASSES, PRIORITY_CLASSES))
        if part.pod and (name := part.pod.get("priorityClassName")):
            yield _Named(f"{part.path}spec.priorityClassName", name, (PRIORITY_CLASSES,))


def account_of(namespace: Document) -> tuple[str, int] | None:
    """Name and uid of the account whose namespace it is; None if it is nobody's."""
    annotations = namespace["metadata"].get("annotations") or {}
    name, uid = annotations.get(ACCOUNT), annotations.get(ACCOUNT_UID, "")
    return (name, int(uid)) if name and uid.isdecimal() else None


def _check_namespace(target: Target, old: Document | None, new: Document) -> None:
    """Whose a namespace is was written by the server, and stays."""
    was, wanted = ((d or {}).get("metadata", {}).get("annotations") or {} for d in (old, new))
    found = [
        FieldError(f"metadata.annotations[{key}]", ABSENT, "is written by the server only")
        for key in (ACCOUNT, ACCOUNT_UID)
        if was.get(key) != wanted.get(key)
    ]
    if found:
        raise _forbidden(target.resource, target.name, found)


def _parts(resource: Resource, document: Document) -> Iterator[_Part]:
    """The object and the templates in it, each with the pod it makes."""
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    yield _Part("", metadata, spec if resource is PODS else None)
    path = "spec."
    if isinstance(inner := spec.get("jobTemplate"), dict):
        yield _Part("spec.jobTemplate.", inner.get("metadata") or {}, None)
        path, spec = "spec.jobTemplate.spec.", inner.get("spec") or {}
    if isinstance(template := spec.get("template"), dict):
        pod = template.get("spec") or {}
        yield _Part(f"{path}template.", template.get("metadata") or {}, pod)


def _metadata_problems(part: _Part, was: _Part, *, is_job: bool) -> Iterator[FieldError]:
    here = f"{part.path}metadata"
    # A Job of a CronJob waits like any other: `kubectl create job --from=cronjob/...` makes one.
    harmless = (CRON_JOBS.kind,) if is_job else ()
    if _controllers(part.metadata, harmless) != _controllers(was.metadata, harmless):
        problem = "names a controller, which is for controllers to say"
        yield FieldError(f"{here}.ownerReferences", ABSENT, problem, "leave controller: true out")
    for place in ("labels", "annotations"):
        now, before = part.metadata.get(place) or {}, was.metadata.get(place) or {}
        for key in sorted({*now, *before}):
            # The client says who submits, and the server writes down who did.
            if key == SUBMITTED_BY and not before:
                continue
            if now.get(key) != before.get(key) and _is_ours(key):
                yield FieldError(f"{here}.{place}[{key}]", ABSENT, "is written by Makeway itself")
    for name in sorted({*_finalizers(part)} ^ {*_finalizers(was)}):
        if name.startswith(OURS) or name in _OF_KUBERNETES:
            yield FieldError(f"{here}.finalizers", ABSENT, f"{name} is written by Makeway itself")


def _pod_problems(part: _Part, was: _Part) -> Iterator[FieldError]:
    now, before = part.pod or {}, was.pod or {}
    here = f"{part.path}spec"
    if now.get("nodeName") != before.get("nodeName"):
        problem = "is chosen by Makeway"
        yield FieldError(f"{here}.nodeName", ABSENT, problem, "leave it out, or write nodeSelector")
    if now.get("schedulerName") not in SCHEDULERS:
        yield FieldError(f"{here}.schedulerName", ABSENT, "there is one scheduler", "leave it out")


def _gate_problems(new: Document, old: Document | None) -> Iterator[FieldError]:
    left = {gate.get("name") for gate in (new.get("spec") or {}).get("schedulingGates") or ()}
    for gate in ((old or {}).get("spec") or {}).get("schedulingGates") or ():
        if str(gate.get("name")).startswith(OURS) and gate.get("name") not in left:
            problem = f"the gate {gate['name']} is taken away by the queue only"
            yield FieldError("spec.schedulingGates", ABSENT, problem)


def _check_cancelled_by(person: Person, target: Target, old: Document, new: Document) -> None:
    """Who ends a job says so in his own name."""
    said, before = (
        ((document.get("metadata") or {}).get("annotations") or {}).get(CANCELLED_BY)
        for document in (new, old)
    )
    if said != before and said not in (None, person.name):
        where, hint = f"metadata.annotations[{CANCELLED_BY}]", f"write {person.name}"
        wrong = FieldError(where, said, "is not who you are", hint)
        raise _forbidden(target.resource, new["metadata"]["name"], [wrong])


def _is_ours(key: str) -> bool:
    return key.startswith(OURS) and key not in WRITTEN_BY_PEOPLE


def _controllers(metadata: Document, harmless: Collection[str]) -> list[Any]:
    owners = metadata.get("ownerReferences") or ()
    return [
        owner.get("uid")
        for owner in owners
        if owner.get("controller") and owner.get("kind") not in harmless
    ]


def _finalizers(part: _Part) -> list[str]:
    return list(part.metadata.get("finalizers") or ())


def _forbidden(resource: Resource, name: str, found: list[FieldError]) -> ApiError:
    """403, with the fields to blame."""
    error = errors.invalid(resource, name, found)
    text = error.message.replace(" is invalid: ", " is forbidden: ", 1)
    return ApiError(403, "Forbidden", text, error.details)
