"""What may become of an object: create, replace, patch, apply, delete.

Every write goes the same way: the document as the client wants it, in its own version; brought to
the stored version; fitted to its schema; completed; decoded; checked; compared with what is there;
written (`objects` has the steps, each of which is taken once). A write that changes nothing writes
nothing.

What is to be written is worked out without waiting for anything (`Wish`), for a large document in
a thread of its own. On the event loop nobody can come between reading the latest state and putting
the write in line; who was in the thread may find that somebody did, and works it out anew.
"""

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from makeway.api import versions
from makeway.api.codec import decode_hub
from makeway.api.configuration import Configuration
from makeway.api.errors import ABSENT, FieldError
from makeway.api.kinds import LOCAL_QUEUES, NAMESPACES, NODES, PODS, Resource
from makeway.api.labels import AUTOMATIC, PREEMPTION_PRIORITY_CLASS
from makeway.api.times import format_time
from makeway.api.validation import validate_set
from makeway.server import apply, errors, limits, objects, rules
from makeway.server import patch as patches
from makeway.server.commits import Committer
from makeway.server.errors import DecodingError, bad_request
from makeway.server.messages import decode
from makeway.server.objects import Checked, Document, Outcome, Target
from makeway.server.options import Binding, DeleteOptions, Options
from makeway.server.people_rules import PeopleRules
from makeway.server.schemas import shape_of
from makeway.server.surroundings import Surroundings
from makeway.server.worker import Worker
from makeway.store import Conflict, Key, Record, Store, WriteFailed

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_PRIORITY_CLASSES = ("priorityclasses.scheduling.k8s.io", "workloadpriorityclasses.kueue.x-k8s.io")
# Kinds that may carry a preemption priority in an annotation.
_RANKED = ("jobs.batch", "pods", "podgroups.scheduling.k8s.io", "gangs.makeway.dev")
_NAME_SIGNS = "bcdfghjklmnpqrstvwxz2456789"
_NAME_MAX = 58  # of a generated name, before the signs that make it unique


AT_ONCE_MAX = 100  # documents of one request that are worked out before others get their turn
TRIES_MAX = 10  # to work out a large write before somebody else has written


@dataclass(frozen=True, slots=True)
class Wish:
    """A write that was worked out."""

    key: Key
    expected: int  # the revision that the object must have still
    document: Document
    is_deletion: bool = False
    warnings: tuple[str, ...] = ()
    is_new: bool = False
    shown: Document | None = None  # instead of what was written

    def outcome(self, written: Record) -> Outcome:
        body = written.body
        if self.shown is not None:
            body = objects.encoded(self.shown, written.revision)
        return Outcome(body, self.is_new, self.is_deletion, self.warnings)


class Verbs:
    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Callable[[], float],
        chance: random.Random,
        worker: Worker,
        configuration: Configuration,
    ) -> None:
        self.store, self.committer, self.clock = store, committer, clock
        self.around = Surroundings(store, worker, configuration)
        self._chance, self._worker = chance, worker
        self._distance_max = configuration.preemption_priority.max_distance
        self.people_rules: PeopleRules | None = None  # None: whoever gets in may write everything

    async def _carry_out(
        self, target: Target, options: Options, work_out: Callable[[], Wish | Outcome]
    ) -> Outcome:
        """Work out what is to be written, and write it."""
        for _ in range(TRIES_MAX):
            latest = self.store.latest(target.key)
            size = max(options.size, 0 if latest is None else len(latest.body))
            wish = await self._worker.do(size, work_out)
            if isinstance(wish, Outcome):
                return wish
            try:
                written = await self._write(
                    wish.key, wish.expected, wish.document, is_deletion=wish.is_deletion
                )
            except Conflict:
                continue  # somebody else has written meanwhile
            return wish.outcome(written)
        raise errors.conflict(target.resource, target.name)

    # Create

    async def create(self, target: Target, document: Any, options: Options) -> Outcome:
        target, wanted = self._addressed(target, document)
        await self._make_way(target, options)
        there = self.store.latest(target.key)
        if there is not None and not options.is_trusted and _yields(decode(there.body)):
            return await self._change(target, lambda _: objects.copied(wanted), options)
        return await self._carry_out(
            target, options, lambda: self._work_out_new(target, wanted, options)
        )

    async def _make_way(self, target: Target, options: Options) -> None:
        """An automatic LocalQueue goes when somebody has one of that name: where it leads to can't
        be changed.
        """
        there = self.store.latest(target.key) if target.resource is LOCAL_QUEUES else None
        if there is None or options.is_trusted or options.is_dry_run:
            return
        document = decode(there.body)
        if _yields(document):
            await self._write(target.key, there.revision, document, is_deletion=True)

    async def create_all(
        self, target: Target, documents: Sequence[Document], options: Options
    ) -> list[Outcome]:
        """Create all of them, or none."""
        prepared = [self._addressed(target, document) for document in documents]
        wishes: list[Wish | Outcome] = []
        for start in range(0, len(prepared), AT_ONCE_MAX):
            part = prepared[start : start + AT_ONCE_MAX]
            work = partial(self._work_out_part, part, options)
            wishes += await self._worker.do(len(part) * options.size, work)
        new = [wish for wish in wishes if isinstance(wish, Wish)]
        try:
            written = await self.committer.write_new(
                [(wish.key, partial(objects.encoded, wish.document)) for wish in new]
            )
        except Conflict as there:
            raise errors.already_exists(target.resource, there.key.name) from None
        except WriteFailed as failure:
            raise errors.write_failed(str(failure)) from None
        if len(new) < len(wishes):  # a dry run
            return [wish for wish in wishes if isinstance(wish, Outcome)]
        return [wish.outcome(record) for wish, record in zip(new, written, strict=True)]

    def _addressed(self, target: Target, document: Any) -> tuple[Target, Document]:
        """What is to be created, with its name."""
        resource = target.resource
        wanted = objects.addressed(target, document)
        if not wanted["metadata"].get("name"):
            wanted["metadata"]["name"] = self._generated_name(resource, wanted)
        if wanted["metadata"].get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        target = replace(target, name=wanted["metadata"]["name"])
        self._check_namespace(target)
        wanted["metadata"].pop("managedFields", None)
        return target, wanted

    def _work_out_part(
        self, part: Sequence[tuple[Target, Document]], options: Options
    ) -> list[Wish | Outcome]:
        return [self._work_out_new(target, wanted, options) for target, wanted in part]

    def _work_out_new(self, target: Target, wanted: Document, options: Options) -> Wish | Outcome:
        if self.store.latest(target.key) is not None:
            raise errors.already_exists(target.resource, target.name)
        own = {**wanted, "metadata": dict(wanted["metadata"])}
        return self._create(target, objects.convert(target, own), options)

    def _create(
        self, target: Target, converted: versions.Converted, options: Options
    ) -> Wish | Outcome:
        resource = target.resource
        wanted: Document = dict(converted.document)
        metadata = wanted["metadata"]
        for name in objects.SERVER_FIELDS:
            metadata.pop(name, None)
        metadata["uid"] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self._now()
        if (resource.stored.group or resource.kind == "Pod") and resource.kind != "Lease":
            metadata["generation"] = 1
        if resource.has_status and resource is not NODES:  # a node reports itself with its status
            wanted.pop("status", None)
        asked = objects.copied(wanted) if self._is_of_people(options) else wanted
        new = self._checked(target, replace(converted, document=wanted), None, options)
        self._check_person(target, None, asked, options)
        self._sign(target, new.document, options)
        if options.is_dry_run or not options.is_trusted:
            body = objects.encoded(new.document, self.store.revision)
            limits.check_size(new.document, len(body), 0)
        if options.is_dry_run:
            return Outcome(body, is_new=True, warnings=new.warnings)
        return Wish(target.key, 0, new.document, warnings=new.warnings, is_new=True)

    def _generated_name(self, resource: Resource, document: Document) -> str:
        prefix = document["metadata"].get("generateName")
        if not isinstance(prefix, str) or not prefix:
            hint = "name or generateName is required"
            missing = FieldError("metadata.name", ABSENT, "is missing", hint)
            raise errors.invalid(resource, "", [missing])
        return prefix[:_NAME_MAX] + "".join(self._chance.choices(_NAME_SIGNS, k=5))

    def _check_namespace(self, target: Target) -> None:
        if not target.resource.is_namespaced:
            return
        found = self.store.latest(Key(NAMESPACES.full_name, "", target.namespace))
        if found is None:
            raise errors.not_found(NAMESPACES, target.namespace)
        if b'"deletionTimestamp"' in found.body and decode(found.body)["metadata"].get(
            "deletionTimestamp"
        ):
            why = (
                f"unable to create new content in namespace {target.namespace} "
                "because it is being terminated"
            )
            raise errors.terminating(target.resource, target.name, target.namespace, why)

    # Replace and patch

    async def replace(self, target: Target, document: Any, options: Options) -> Outcome:
        wanted = objects.addressed(target, document)
        objects.check_name_on_url(target, wanted)
        if not target.resource.is_built_in and not wanted["metadata"].get("resourceVersion"):
            self._latest(target)
            raise errors.revision_required(target.resource, target.name)
        return await self._change(target, lambda _: objects.copied(wanted), options)

    async def patch(
        self, target: Target, content_type: str, patch: Any, options: Options
    ) -> Outcome:
        """Change an object by a patch of a type that its kind takes (`patch_types`)."""
        resource = target.resource
        if content_type == patches.APPLY_PATCH:
            await self._make_way(target, options)
            return await self._apply(target, patch, options)
        shape = shape_of(resource.schema)
        edits: Mapping[str, Callable[[Document], Any]] = {
            patches.MERGE_PATCH: lambda old: patches.merge_patch(old, patch),
            patches.JSON_PATCH: lambda old: patches.json_patch(old, patch),
            patches.STRATEGIC_PATCH: lambda old: patches.strategic_patch(old, patch, shape),
        }
        try:
            return await self._change(target, edits[content_type], options)
        except DecodingError as error:
            raise errors.bad_patch(resource, target.name, error.message) from None

    async def _change(
        self, target: Target, edit: Callable[[Document], Any], options: Options
    ) -> Outcome:
        """Read, edit, write; without a resourceVersion in the edit, the last write wins."""
        return await self._carry_out(target, options, lambda: self._edited(target, edit, options))

    def _edited(
        self, target: Target, edit: Callable[[Document], Any], options: Options
    ) -> Wish | Outcome:
        record, old = self._latest(target)
        # In the version that the client speaks, and ours to change.
        shown = dict(objects.shown_as(decode(record.body), target.resource, target.version))
        wanted = objects.addressed(target, edit(shown))
        objects.check_name_on_url(target, wanted)
        self._check_precondition(target, wanted["metadata"], old)
        new, warnings = self._changed(target, objects.convert(target, wanted), old, options)
        if old["metadata"].get("managedFields") or new["metadata"].get("managedFields"):
            manager = self._manager(target, options, apply.UPDATE)
            apply.track_update(old, new, shape_of(target.resource.stored.schema), manager)
        return self._settle(target, record, new, options, warnings)

    def _latest(self, target: Target) -> tuple[Record, Document]:
        record = self.store.latest(target.key)
        if record is None:
            raise errors.not_found(target.resource, target.name)
        return record, decode(record.body)

    def _check_precondition(
        self, target: Target, metadata: Mapping[str, Any], old: Document
    ) -> None:
        asked = metadata.get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise errors.conflict(target.resource, target.name)
        uid = metadata.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {old['metadata']['uid']}"
            )
            raise errors.conflict(target.resource, target.name, why)

    def _changed(
        self, target: Target, converted: versions.Converted, old: Document, options: Options
    ) -> tuple[Document, tuple[str, ...]]:
        """The object after a change of its spec or of its status, checked; and warnings."""
        resource = target.resource
        wanted: Document = dict(converted.document)
        if target.subresource == "status":
            metadata = dict(old["metadata"])
            if resource.is_built_in:
                # Only custom kinds keep all of their metadata out of reach of the status.
                metadata = objects.carried_metadata(wanted["metadata"], metadata)
            if wanted["metadata"].get("managedFields") is not None:
                metadata["managedFields"] = wanted["metadata"]["managedFields"]
            new = {**old, "metadata": metadata, "status": wanted.get("status") or {}}
            done = self._checked(target, replace(converted, document=new), old, options)
            self._check_person(target, old, done.document, options)
            return done.document, done.warnings
        new = dict(wanted)
        if resource.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        new["metadata"] = objects.carried_metadata(wanted["metadata"], old["metadata"])
        objects.check_finalizers(target, new["metadata"], old["metadata"])
        if resource is NAMESPACES:
            new["spec"] = old.get("spec", {})  # only its own finalize subresource changes it
        done = self._checked(target, replace(converted, document=new), old, options)
        new = done.document
        self._check_person(target, old, new, options)
        if objects.spec_differs(new, old):
            if "generation" in old["metadata"]:
                new["metadata"]["generation"] = old["metadata"]["generation"] + 1
            rules.check_change(resource, old, new)
            if not options.is_trusted:
                rules.check_release(resource, old, new, self.around)
        return new, done.warnings

    def _manager(self, target: Target, options: Options, operation: str) -> apply.Manager:
        return apply.Manager(
            name=options.manager,
            operation=operation,
            subresource=target.subresource,
            api_version=target.resource.stored.api_version,
            time=self._now(),
            fields=frozenset(),
        )

    def _settle(
        self,
        target: Target,
        record: Record,
        new: Document,
        options: Options,
        warnings: tuple[str, ...],
    ) -> Wish | Outcome:
        metadata = new["metadata"]
        metadata["resourceVersion"] = str(record.revision)
        if not metadata.get("managedFields"):
            metadata.pop("managedFields", None)
        if new == decode(record.body):
            return Outcome(record.body, warnings=warnings)
        is_deletion = bool(metadata.get("deletionTimestamp")) and objects.can_be_removed(
            target.resource, new
        )
        if options.is_dry_run or not options.is_trusted:
            body = objects.encoded(new, record.revision)
            limits.check_size(new, len(body), len(record.body))
        if options.is_dry_run:
            return Outcome(body, warnings=warnings)
        # What watchers see of a deletion is what there was before it.
        left = decode(record.body) if is_deletion else new
        shown = new if is_deletion else None
        return Wish(target.key, record.revision, left, is_deletion, warnings, shown=shown)

    # Apply

    async def _apply(self, target: Target, document: Any, options: Options) -> Outcome:
        return await self._carry_out(
            target, options, lambda: self._applied(target, document, options)
        )

    def _applied(self, target: Target, document: Any, options: Options) -> Wish | Outcome:
        for name in ("apiVersion", "kind"):
            if isinstance(document, dict) and not document.get(name):
                raise bad_request(f"{name} is missing; what is applied has to say what it is")
        wanted = objects.addressed(target, document)
        metadata = wanted["metadata"]
        metadata.setdefault("name", target.name)
        objects.check_name_on_url(target, wanted)
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if options.manager == "unknown":
            why = "Required value: is required for apply patch"
            raise errors.bad_option("PatchOptions", "fieldManager", "FieldValueRequired", why)
        converted = objects.convert(target, wanted)
        applied: Document = dict(converted.document)
        unknown = objects.fit(applied, target)
        warnings = objects.unknown_fields(target, unknown, options)
        manager = self._manager(target, options, apply.APPLY)
        if self.store.latest(target.key) is None:
            return self._create_applied(
                target, replace(converted, document=applied), manager, options
            )
        record, old = self._latest(target)
        self._check_precondition(target, metadata, old)
        shape = shape_of(target.resource.stored.schema)
        before = decode(record.body)
        is_forced = options.is_forced or _yields(before)
        merged = apply.apply(before, applied, shape, manager, is_forced=is_forced)
        new, more = self._changed(target, replace(converted, document=merged), old, options)
        return self._settle(target, record, new, options, (*warnings, *more))

    def _create_applied(
        self,
        target: Target,
        converted: versions.Converted,
        manager: apply.Manager,
        options: Options,
    ) -> Wish | Outcome:
        applied: Document = dict(converted.document)
        if target.subresource:
            raise errors.not_found(target.resource, target.name)
        if not options.may_create:
            why = "it is not there, and you may change it but not create it"
            raise errors.forbidden(target.resource, target.name, why)
        if applied["metadata"].get("uid"):
            uid = applied["metadata"]["uid"]
            why = (
                f"uid mismatch: the provided object specified uid {uid}, and no existing object "
                "was found"
            )
            raise errors.conflict(target.resource, target.name, why)
        self._check_namespace(target)
        shape = shape_of(target.resource.stored.schema)
        created = apply.apply(None, applied, shape, manager, is_forced=False)
        new = replace(converted, document=objects.copied(created))
        return self._create(target, new, options)

    # Delete

    async def delete(self, target: Target, options: DeleteOptions) -> Outcome:
        record, document = self._latest(target)
        self._check_delete(target, document, options)
        marked = self._marked_for_deletion(target.resource, document, options)
        is_gone = objects.can_be_removed(target.resource, marked)
        if options.is_dry_run:
            return Outcome(objects.encoded(marked, record.revision), is_gone=is_gone)
        if not is_gone and marked == document:
            return Outcome(record.body)
        if is_gone and target.resource is PODS and marked != document:
            # Watchers see a pod leave before it is gone, however short its time is.
            await self._write(target.key, record.revision, marked)
            record, document = self._latest(target)
        left = document if is_gone else marked
        written = await self._write(target.key, record.revision, left, is_deletion=is_gone)
        return Outcome(written.body, is_gone=is_gone)

    def _check_delete(self, target: Target, document: Document, options: DeleteOptions) -> None:
        metadata = document["metadata"]
        for word, asked, found, perhaps in (
            ("UID", options.uid, metadata["uid"], "deleted and then recreated"),
            ("ResourceVersion", options.resource_version, metadata["resourceVersion"], "modified"),
        ):
            if asked and asked != found:
                why = (
                    f"the {word} in the precondition ({asked}) does not match the {word} in "
                    f"record ({found}). The object might have been {perhaps}"
                )
                raise errors.precondition_failed(target.resource, target.name, why)
        if target.resource is NAMESPACES and target.name in ("default", "kube-system"):
            raise errors.forbidden(
                target.resource, target.name, "this namespace may not be deleted"
            )

    def _marked_for_deletion(
        self, resource: Resource, document: Document, options: DeleteOptions
    ) -> Document:
        metadata = dict(document["metadata"])
        marked = {**document, "metadata": metadata}
        finalizers = [
            name for name in metadata.get("finalizers") or () if name not in (ORPHAN, FOREGROUND)
        ]
        if options.propagation == "Orphan":
            finalizers.append(ORPHAN)
        elif options.propagation == "Foreground":
            finalizers.append(FOREGROUND)
        elif not options.propagation:
            finalizers = list(metadata.get("finalizers") or ())
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        left_s = metadata.get("deletionGracePeriodSeconds")
        wanted_s = objects.grace_s(resource, document, options.grace_s)
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        if "deletionTimestamp" not in metadata or (left_s is not None and wanted_s < left_s):
            metadata["deletionTimestamp"] = format_time(int(self.clock()) + wanted_s)
            metadata["deletionGracePeriodSeconds"] = wanted_s
        if resource is NAMESPACES:
            marked["status"] = {**(document.get("status") or {}), "phase": "Terminating"}
        return marked

    async def finalize(self, target: Target, finalizers: list[str]) -> Outcome:
        """Set the finalizers of a namespace's spec: what its own controller does at the end."""

        def work_out() -> Wish | Outcome:
            record, new = self._latest(target)
            new["spec"] = {"finalizers": finalizers} if finalizers else {}
            return self._settle(target, record, new, Options(is_trusted=True), ())

        return await self._carry_out(target, Options(), work_out)

    async def bind(self, target: Target, binding: Binding) -> None:
        """Give a pod its node, which nobody may change later."""
        await self._carry_out(target, Options(), lambda: self._bound(target, binding))

    def _bound(self, target: Target, binding: Binding) -> Wish | Outcome:
        record, new = self._latest(target)
        self._check_precondition(target, binding.metadata, new)
        spec, metadata = new["spec"], new["metadata"]
        for is_so, why in (
            (metadata.get("deletionTimestamp"), "is being deleted, cannot be assigned to a host"),
            (spec.get("nodeName"), f'is already assigned to node "{spec.get("nodeName")}"'),
            (spec.get("schedulingGates"), "has non-empty .spec.schedulingGates"),
        ):
            if is_so:
                raise errors.binding_conflict(target.name, f"pod {target.name} {why}")
        spec["nodeName"] = binding.node
        for part in ("labels", "annotations"):
            if more := getattr(binding, part):
                metadata[part] = {**(metadata.get(part) or {}), **more}
        conditions = new.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c.get("type") != "PodScheduled"]
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._now()}
        )
        return self._settle(target, record, new, Options(is_trusted=True), ())

    # People

    def _is_of_people(self, options: Options) -> bool:
        return self.people_rules is not None and options.person is not None

    def _check_person(
        self, target: Target, old: Document | None, new: Document, options: Options
    ) -> None:
        if self.people_rules is not None and options.person is not None:
            check = partial(self.people_rules.check, options.person, target, old, new)
            self._worker.ask(check)

    def _sign(self, target: Target, new: Document, options: Options) -> None:
        if self.people_rules is not None and options.person and not options.is_dry_run:
            sign = partial(self.people_rules.sign, options.person, target, new)
            self._worker.ask(partial(sign, options.array_number))

    # Common to all

    def _now(self) -> str:
        return format_time(int(self.clock()))

    async def _write(
        self, key: Key, expected: int, document: Document, *, is_deletion: bool = False
    ) -> Record:
        try:
            return await self.committer.write(
                key, expected, lambda r: objects.encoded(document, r), is_deletion=is_deletion
            )
        except WriteFailed as failure:
            raise errors.write_failed(str(failure)) from None

    def _checked(
        self, target: Target, wanted: versions.Converted, old: Document | None, options: Options
    ) -> Checked:
        new = objects.checked(target, wanted, old, options, self.around)
        if target.subresource != "status":
            self._check_among_others(target, new)
        return new

    def _check_among_others(self, target: Target, new: Checked) -> None:
        """Refuse what is wrong only together with other objects: cycles, priorities."""
        kind = target.resource.full_name
        if kind == "cohorts.kueue.x-k8s.io":
            kinds: tuple[str, ...] = (kind,)
        elif kind == "workloads.scheduling.k8s.io" or (
            kind in _RANKED
            and PREEMPTION_PRIORITY_CLASS in (new.document["metadata"].get("annotations") or {})
        ):
            kinds = _PRIORITY_CLASSES
        else:
            return
        others = [
            decode_hub(decode(record.body)).object
            for other in kinds
            for record in self._worker.ask(partial(self.store.scan, other))
            if record.key != target.key
        ]
        views = [view for view in (*others, new.view) if view is not None]
        last = len(views) - 1
        wrong = validate_set(views, distance_max=self._distance_max)
        found = [error.error for error in wrong if error.index == last]
        if found:
            raise errors.invalid(target.resource, target.name, found)


def _yields(document: Document) -> bool:
    """What we have made by ourselves gives way to whoever says what he wants there."""
    return AUTOMATIC in (document["metadata"].get("labels") or {})
