"""Who may do what: roles and bindings as the store has them, and what everybody has without any.

The rules are Kubernetes': what is not allowed is forbidden, rights only add up, and nobody can hand
out what he does not have. Two things hold without a binding that somebody could remove: everybody
has the role `makeway-everyone`, and in his own namespace the role `makeway-person`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from makeway.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
)
from makeway.server.errors import ApiError
from makeway.server.messages import Request, decode
from makeway.server.people import Person
from makeway.server.roles import EVERYONE, PERSON, RULES
from makeway.store import Key, Store

AUTHENTICATED, MASTERS = "system:authenticated", "system:masters"
_ALL = "*"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_ONE_NAME = re.compile(r"metadata\.name==?([-a-z0-9.:]+)", re.ASCII)
# Who may do one of these in a namespace runs processes as its account.
BECOMING = tuple(
    ("create", group, resource)
    for group, resource in (
        *(("", "pods"), ("", "pods/exec"), ("", "pods/attach"), ("", "pods/portforward")),
        *(("batch", "jobs"), ("batch", "cronjobs")),
    )
)
# A WebSocket can only be asked for by GET; who may read a pod may not become it by that.
_JOINING = frozenset(("pods/attach", "pods/exec", "pods/portforward"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a request wants, as roles speak of it."""

    verb: str
    group: str = ""
    resource: str = ""  # with its subresource: pods/log
    namespace: str = ""
    name: str = ""
    path: str = ""  # of what is no object

    def refusal(self, person: Person) -> ApiError:
        """In Kubernetes' words."""
        who = f'User "{person.name}" cannot {self.verb}'
        if self.path:
            message = f'forbidden: {who} path "{self.path}"'
            return ApiError(403, "Forbidden", message, {})
        plural = self.resource.partition("/")[0]
        full = f"{plural}.{self.group}" if self.group else plural
        named = f'{full} "{self.name}"' if self.name else full
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        what = f'resource "{self.resource}" in API group "{self.group}" {where}'
        details = {"name": self.name, "group": self.group, "kind": plural}
        message = f"{named} is forbidden: {who} {what}"
        return ApiError(403, "Forbidden", message, {k: v for k, v in details.items() if v})


def ask_of(request: Request, segments: list[str]) -> Ask:
    """What a request asks for, by its path alone."""
    match segments:
        case ["api", _, *rest] if rest:
            return _object_ask(request, "", rest)
        case ["apis", group, _, *rest] if rest:
            return _object_ask(request, group, rest)
    return Ask(verb=request.method.lower(), path="/" + "/".join(segments))


def _object_ask(request: Request, group: str, rest: list[str]) -> Ask:
    namespace = ""
    if rest[0] == NAMESPACES.plural and len(rest) > 1:
        namespace = rest[1]
        is_own = group == "" and (len(rest) == 2 or rest[2:] in (["status"], ["finalize"]))
        if not is_own and len(rest) > 2:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join([rest[0], *rest[2:]])
    verb = _verb(request, is_one=bool(name))
    if verb == "get" and resource in _JOINING:
        verb = "create"
    if not name and (found := _ONE_NAME.fullmatch(request.query.get("fieldSelector", ""))):
        name = found[1]
    return Ask(verb=verb, group=group, resource=resource, namespace=namespace, name=name)


def _verb(request: Request, *, is_one: bool) -> str:
    match request.method:
        case "GET" if is_one:
            return "get"
        case "GET":
            return "watch" if request.flag("watch") else "list"
        case "DELETE":
            return "delete" if is_one else "deletecollection"
    return _VERBS.get(request.method, request.method.lower())


@dataclass(frozen=True, slots=True)
class Rule:
    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()  # empty: all
    paths: frozenset[str] = frozenset()

    def allows(self, ask: Ask) -> bool:
        if not _has(self.verbs, ask.verb):
            return False
        if ask.path:
            return any(_covers_path(path, ask.path) for path in self.paths)
        return (
            _has(self.groups, ask.group)
            and self._has_resource(ask.resource)
            and (not self.names or ask.name in self.names)
        )

    def _has_resource(self, resource: str) -> bool:
        part = resource.partition("/")[2]
        return _has(self.resources, resource) or (bool(part) and f"*/{part}" in self.resources)

    def as_document(self) -> dict[str, list[str]]:
        if self.paths:
            return {"verbs": sorted(self.verbs), "nonResourceURLs": sorted(self.paths)}
        said = {
            "verbs": sorted(self.verbs),
            "apiGroups": sorted(self.groups),
            "resources": sorted(self.resources),
        }
        return {**said, "resourceNames": sorted(self.names)} if self.names else said


def _has(words: frozenset[str], word: str) -> bool:
    return _ALL in words or word in words


def _covers_path(pattern: str, path: str) -> bool:
    if pattern.endswith(_ALL):
        return path.startswith(pattern[:-1])
    return pattern == path


EVERYTHING = (
    Rule(frozenset({_ALL}), groups=frozenset({_ALL}), resources=frozenset({_ALL})),
    Rule(frozenset({_ALL}), paths=frozenset({_ALL})),
)


def rules_in(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a stored role."""
    return tuple(
        Rule(
            frozenset(rule.get("verbs") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("resources") or ()),
            frozenset(rule.get("resourceNames") or ()),
            frozenset(rule.get("nonResourceURLs") or ()),
        )
        for rule in role.get("rules") or ()
    )


_BUILT_IN = {name: rules_in({"rules": rules}) for name, rules in RULES.items()}


@dataclass(frozen=True, slots=True)
class _Binding:
    namespace: str  # empty: everywhere
    role: Key
    subjects: frozenset[tuple[str, str]]  # kind and name


class Access:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[str, list[_Binding]] = {}  # by namespace
        self._is_stale = True
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS):
            store.listen(resource.full_name, lambda _: self._forget())

    def _forget(self) -> None:
        self._is_stale = True

    def check(self, person: Person, ask: Ask) -> None:
        if not self.allows(person, ask):
            raise ask.refusal(person)

    def allows(self, person: Person, ask: Ask) -> bool:
        return any(rule.allows(ask) for rule in self.rules(person, ask.namespace))

    def rules(self, person: Person, namespace: str) -> Iterator[Rule]:
        """All that a person has in a namespace (empty: outside of them)."""
        if person.is_admin:
            yield from EVERYTHING
            return
        self._refresh()
        yield from self._role(EVERYONE)
        if namespace == person.namespace:
            yield from self._role(PERSON)
        own = _subjects_of(person)
        for binding in (*self._bindings.get("", ()), *self._bindings.get(namespace or "/", ())):
            if binding.subjects & own:
                for rule in self._roles.get(binding.role, ()):
                    # What is no object is nobody's by a right in one namespace.
                    if not binding.namespace or not rule.paths:
                        yield rule

    def _role(self, name: str) -> tuple[Rule, ...]:
        """One of ours; who deletes it has locked nobody out."""
        found = self._roles.get(Key(CLUSTER_ROLES.full_name, "", name))
        return _BUILT_IN[name] if found is None else found

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._roles, self._bindings = {}, {}
        for kind in (CLUSTER_ROLES, ROLES):
            for record in self._store.scan(kind.full_name):
                self._roles[record.key] = rules_in(decode(record.body))
        for kind in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            for record in self._store.scan(kind.full_name):
                binding = binding_in(record.key.namespace, decode(record.body))
                self._bindings.setdefault(binding.namespace, []).append(binding)
        self._is_stale = False

    # Handing on

    def check_write(
        self, person: Person, kind: str, namespace: str, new: Mapping[str, Any]
    ) -> None:
        """Refuse a role or binding that gives what its writer does not have."""
        if person.is_admin:
            return
        name = new["metadata"]["name"]
        if kind in ("Role", "ClusterRole"):
            if not self._may(person, "escalate", f"{kind.lower()}s", namespace, name):
                self._check_covered(person, namespace, rules_in(new), f'{kind} "{name}"')
        elif kind in ("RoleBinding", "ClusterRoleBinding"):
            self._check_bound(person, namespace, new)

    def _check_bound(self, person: Person, namespace: str, new: Mapping[str, Any]) -> None:
        role = binding_in(namespace, new).role
        plural = "clusterroles" if role.kind == CLUSTER_ROLES.full_name else "roles"
        if self._may(person, "bind", plural, namespace, role.name):
            return
        self._refresh()
        rules, what = self._roles.get(role, ()), f'{plural} "{role.name}"'
        for verb, group, resource in BECOMING:
            ask = Ask(verb=verb, group=group, resource=resource, namespace=namespace)
            if any(rule.allows(ask) for rule in rules):
                why = f"it lets others {verb} {resource}, and so be the account: admins bind that"
                raise _escalation(person, what, why)
        self._check_covered(person, namespace, rules, what)

    def _may(self, person: Person, verb: str, plural: str, namespace: str, name: str) -> bool:
        group = CLUSTER_ROLES.group
        ask = Ask(verb=verb, group=group, resource=plural, namespace=namespace, name=name)
        return self.allows(person, ask)

    def _check_covered(
        self, person: Person, namespace: str, wanted: Iterable[Rule], what: str
    ) -> None:
        own = list(self.rules(person, namespace))
        for rule in wanted:
            for ask in _asks_in(rule, namespace):
                if not any(_grants(mine, ask) for mine in own):
                    raise _escalation(person, what, f"it grants {_in_words(ask)}")


def binding_in(namespace: str, document: Mapping[str, Any]) -> _Binding:
    named = document.get("roleRef") or {}
    is_cluster = named.get("kind") == "ClusterRole"
    kind = CLUSTER_ROLES if is_cluster else ROLES
    role = Key(kind.full_name, "" if is_cluster else namespace, str(named.get("name") or ""))
    subjects = document.get("subjects") or ()
    known = {(str(s.get("kind") or ""), str(s.get("name") or "")) for s in subjects}
    return _Binding(namespace, role, frozenset(known))


def groups_shown(person: Person) -> list[str]:
    return [*person.groups, AUTHENTICATED, *([MASTERS] if person.is_admin else [])]


def _subjects_of(person: Person) -> set[tuple[str, str]]:
    return {("User", person.name), *(("Group", group) for group in groups_shown(person))}


def _asks_in(rule: Rule, namespace: str) -> Iterator[Ask]:
    """All that a rule allows, one by one; `*` stands for itself."""
    for verb in sorted(rule.verbs):
        for path in sorted(rule.paths):
            yield Ask(verb=verb, path=path)
        for group in sorted(rule.groups):
            for resource in sorted(rule.resources):
                ask = Ask(verb=verb, group=group, resource=resource, namespace=namespace)
                for name in sorted(rule.names) or [""]:
                    yield replace(ask, name=name)


def _grants(mine: Rule, ask: Ask) -> bool:
    """Whether a rule covers all of what is asked, which may be `*` itself."""
    if ask.path:
        return _has(mine.verbs, ask.verb) and any(
            _covers_path(path, ask.path) for path in mine.paths
        )
    # Without a name all objects are meant, which a rule with names does not cover.
    return mine.allows(ask)


def _in_words(ask: Ask) -> str:
    if ask.path:
        return f"{ask.verb} of {ask.path}"
    what = f"{ask.resource}.{ask.group}" if ask.group else ask.resource
    return f"{ask.verb} of {what}" + (f' "{ask.name}"' if ask.name else "")


def _escalation(person: Person, what: str, why: str) -> ApiError:
    message = (
        f'{what} is forbidden: user "{person.name}" is attempting to grant RBAC permissions not '
        f"currently held: {why}"
    )
    return ApiError(403, "Forbidden", message, {})
