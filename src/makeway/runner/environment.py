"""The variables and the command line of a container, as Kubernetes makes them up."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from makeway.api.labels import ATTEMPT, ID, LAST_END
from makeway.api.programs import (
    ContainerProgram,
    PodOfPrograms,
    ResourceReference,
    Variable,
    limits_and_requests,
)

ADDRESS = "127.0.0.1"
_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)\s]+)\))")
_KEYED = re.compile(r"metadata\.(?P<what>labels|annotations)\['(?P<key>[^']+)'\]")


class Refused(Exception):
    """The pod can't run here; the text is for its owner."""


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
    pod: PodOfPrograms, container: ContainerProgram, allocatable: Mapping[str, int]
) -> dict[str, str]:
    """The variables that a container declares; each may refer to those before it."""
    if container.env_from:
        raise Refused(
            f"container {container.name}: envFrom is not supported, as there are no ConfigMaps "
            "and Secrets; write the variables out in env"
        )
    variables: dict[str, str] = {}
    for variable in container.env:
        variables[variable.name] = _value_of(variable, variables, pod, container, allocatable)
    return variables


def _value_of(
    variable: Variable,
    before: Mapping[str, str],
    pod: PodOfPrograms,
    container: ContainerProgram,
    allocatable: Mapping[str, int],
) -> str:
    source = variable.value_from
    if source is None:
        return expand(variable.value, before)
    if source.field_ref is not None:
        return _field(pod, source.field_ref.field_path, variable.name)
    if source.resource_field_ref is not None:
        return _resource(pod, container, source.resource_field_ref, allocatable, variable.name)
    kind = next(iter(source.document or ()), "nothing")
    raise Refused(
        f"container {container.name}: variable {variable.name} comes from {kind}, which is not "
        "supported; write its value, or use fieldRef or resourceFieldRef"
    )


def _field(pod: PodOfPrograms, path: str, variable: str) -> str:
    metadata, spec = pod.metadata, pod.spec
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
    keyed = _KEYED.fullmatch(path)
    if keyed is None:
        raise Refused(f"variable {variable}: there is no field {path} to take it from")
    values = metadata.labels if keyed["what"] == "labels" else metadata.annotations
    return values.get(keyed["key"], "")


def _resource(
    pod: PodOfPrograms,
    container: ContainerProgram,
    reference: ResourceReference,
    allocatable: Mapping[str, int],
    variable: str,
) -> str:
    """A limit that is not set is what the node has; a request that is not set is none."""
    name = reference.container_name or container.name
    among = (*pod.spec.init_containers, *pod.spec.containers)
    found = next((other for other in among if other.name == name), None)
    if found is None:
        raise Refused(f"variable {variable}: there is no container {name} to take it from")
    side, _, resource = reference.resource.partition(".")
    if side not in ("limits", "requests") or not resource:
        raise Refused(f"variable {variable}: {reference.resource} is no limit and no request")
    without = allocatable.get(resource, 0) if side == "limits" else 0
    amount = limits_and_requests(found.resources).get(reference.resource, without)
    units = Fraction(amount, 1000 if resource == "cpu" else 1)
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
