"""The variables and the command line of a container, as Kubernetes makes them up."""

from __future__ import annotations

import json
import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from fractions import Fraction

from makeway.api.kinds import CONFIG_MAPS, SECRETS, Resource
from makeway.api.labels import ATTEMPT, ID, LAST_END
from makeway.api.programs import (
    FIELD_BY_KEY,
    ContainerProgram,
    FieldReference,
    KeySelector,
    ObjectSelector,
    PodOfPrograms,
    ResourceReference,
    Variable,
    limits_and_requests,
)
from makeway.api.quantity import smallest_units

ADDRESS = "127.0.0.1"
_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)\s]+)\))")

# The values of a ConfigMap or Secret of the pod's namespace, by key; None: there is none.
FindValues = Callable[[Resource, str], Mapping[str, bytes] | None]


class Refused(Exception):
    """The pod can't run here; the text is for its owner."""


class NotYet(Exception):
    """The pod reads what isn't there; it waits for that. The text is Kubernetes'."""

    container = ""  # that reads it; empty: a volume does


def nothing_there(_resource: Resource, _name: str) -> None:
    """For pods that read no ConfigMaps and Secrets."""


def of_the_run(pod: PodOfPrograms) -> dict[str, str]:
    """What a program may want to know of the run that it is; its author may say otherwise.

    Python shows what it prints at once, though that goes to a file.
    """
    told = {"MAKEWAY_JOB_ID": ID, "MAKEWAY_ATTEMPT": ATTEMPT, "MAKEWAY_LAST_END": LAST_END}
    noted = pod.metadata.annotations
    return {"PYTHONUNBUFFERED": "1"} | {
        name: noted.get(key, "") for name, key in told.items() if ATTEMPT in noted
    }


def variables_of(
    pod: PodOfPrograms,
    container: ContainerProgram,
    allocatable: Mapping[str, int],
    find: FindValues,
    services: Mapping[str, str],
) -> dict[str, str]:
    """The variables that a container declares; each may refer to those before it, and to services'.

    Those of whole objects can be referred to in the command only, as in Kubernetes.
    """
    variables: dict[str, str] = {}
    before = ChainMap(variables, dict(services))
    for variable in container.env:
        value = _value_of(variable, before, pod, container, allocatable, find)
        if value is not None:
            variables[variable.name] = value
    return {**services, **_variables_of_objects(container, find), **variables}


def _variables_of_objects(container: ContainerProgram, find: FindValues) -> dict[str, str]:
    found: dict[str, str] = {}
    for source in container.env_from:
        for resource, reference in (
            (CONFIG_MAPS, source.config_map_ref),
            (SECRETS, source.secret_ref),
        ):
            if reference is not None:
                for key, value in values_of(resource, reference, find).items():
                    found[source.prefix + key] = _as_variable(value, source.prefix + key)
    return found


def values_of(
    resource: Resource, reference: ObjectSelector | KeySelector, find: FindValues
) -> Mapping[str, bytes]:
    """What an object holds; nothing if it isn't there and needn't be."""
    values = find(resource, reference.name)
    if values is None and not reference.optional:
        raise NotYet(f'{resource.kind.lower()} "{reference.name}" not found')
    return values or {}


def _value_of(
    variable: Variable,
    before: Mapping[str, str],
    pod: PodOfPrograms,
    container: ContainerProgram,
    allocatable: Mapping[str, int],
    find: FindValues,
) -> str | None:
    """None: it has none, and needn't have one."""
    source, named = variable.value_from, f"variable {variable.name}"
    if source is None:
        return expand(variable.value, before)
    if source.field_ref is not None:
        return field_text(pod, source.field_ref, named)
    if source.resource_field_ref is not None:
        return resource_text(pod, container.name, source.resource_field_ref, allocatable, named)
    if source.config_map_key_ref is not None:
        return _chosen(CONFIG_MAPS, source.config_map_key_ref, pod, variable.name, find)
    if source.secret_key_ref is not None:
        return _chosen(SECRETS, source.secret_key_ref, pod, variable.name, find)
    kind = next(iter(source.document or ()), "nothing")
    raise Refused(
        f"container {container.name}: {named} comes from {kind}, which is not supported; write its "
        "value, or use configMapKeyRef, secretKeyRef, fieldRef or resourceFieldRef"
    )


def _chosen(
    resource: Resource, reference: KeySelector, pod: PodOfPrograms, name: str, find: FindValues
) -> str | None:
    values, key = values_of(resource, reference, find), reference.key
    if key in values:
        return _as_variable(values[key], name)
    if reference.optional:
        return None
    where = f"{pod.metadata.namespace}/{reference.name}"
    raise NotYet(f"couldn't find key {key} in {resource.kind} {where}")


def _as_variable(value: bytes, name: str) -> str:
    """Bytes that are no text come to the process as they are."""
    if b"\0" in value:
        raise Refused(f"variable {name} has a null byte in it, which no variable can have")
    return value.decode(errors="surrogateescape")


def field_text(pod: PodOfPrograms, reference: FieldReference, named: str) -> str:
    """A field of the pod; `named` says for what."""
    metadata, spec, path = pod.metadata, pod.spec, reference.field_path
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.hostIP": ADDRESS,
        "status.hostIPs": ADDRESS,
        "status.podIP": ADDRESS,
        "status.podIPs": ADDRESS,
    }
    if path in plain:
        return plain[path]
    if path in ("metadata.labels", "metadata.annotations"):
        return _lines(metadata.labels if path.endswith("labels") else metadata.annotations)
    keyed = FIELD_BY_KEY.fullmatch(path)
    if keyed is None:
        raise Refused(f"{named}: there is no field {path} to take it from")
    values = metadata.labels if keyed["what"] == "labels" else metadata.annotations
    return values.get(keyed["key"], "")


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(values.items())
    )


def resource_text(
    pod: PodOfPrograms,
    container: str,
    reference: ResourceReference,
    allocatable: Mapping[str, int],
    named: str,
) -> str:
    """A limit that is not set is what the node has; a request that is not set is none."""
    name = reference.container_name or container
    among = (*pod.spec.init_containers, *pod.spec.containers)
    found = next((other for other in among if other.name == name), None)
    if found is None:
        raise Refused(f"{named}: there is no container {name!r} to take it from")
    side, _, resource = reference.resource.partition(".")
    if side not in ("limits", "requests") or not resource:
        raise Refused(f"{named}: {reference.resource} is no limit and no request")
    without = allocatable.get(resource, 0) if side == "limits" else 0
    amount = limits_and_requests(found.resources).get(reference.resource, without)
    units = Fraction(amount, smallest_units(resource))
    return str(math.ceil(units / (reference.divisor or 1)))


def command_line(container: ContainerProgram, variables: Mapping[str, str]) -> tuple[str, ...]:
    words = (*container.command, *container.args)
    if not words:
        raise Refused(
            f"container {container.name} has no command: there is no image to run; give the "
            "container a command"
        )
    return tuple(expand(word, variables) for word in words)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put in the variables named by `$(NAME)`; an unknown one stays, and so does `$$(NAME)`."""

    def replaced(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        return variables.get(match["name"], match[0])

    return _REFERENCE.sub(replaced, text)
