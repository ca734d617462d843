"""Rules for where a pod has its variables and files from.

The views of pods that are counted and placed don't show these parts, so the document is looked at;
what is of a wrong type is somebody else's business.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from makeway.api.errors import ABSENT
from makeway.api.programs import (
    FIELD_BY_KEY,
    FIELDS_IN_FULL,
    FIELDS_OF_FILES,
    FIELDS_OF_VARIABLES,
)
from makeway.api.schema import Document
from makeway.api.validation.findings import Findings, check_unique

VALUE_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
VALUE_KEY_HINT = "write letters, digits, -, _ and ., not two dots first"
_SOURCES = ("configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef", "fileKeyRef")
_MODE_MAX = 0o777


def is_value_key(key: object) -> bool:
    """Whether it may be the key of a value in a ConfigMap or Secret."""
    if not isinstance(key, str) or not VALUE_KEY.fullmatch(key):
        return False
    return key != "." and not key.startswith("..")


def check_sources(spec: Document, found: Findings) -> None:
    names = []
    for index, volume in objects_in(spec.get("volumes")):
        names.append(volume.get("name"))
        _check_volume(volume, found.at("volumes", index))
    for place in ("initContainers", "containers"):
        for index, container in objects_in(spec.get(place)):
            _check_container(container, names, found.at(place, index))


def objects_in(items: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a list, each with its place; whatever else stands there is left out."""
    for index, item in enumerate(items if isinstance(items, list | tuple) else ()):
        if isinstance(item, dict):  # an abstract type would cost a call for each
            yield index, item


# Volumes


def _check_volume(volume: Mapping[str, Any], found: Findings) -> None:
    kinds = [kind for kind in volume if kind != "name" and volume[kind] is not None]
    if len(kinds) > 1:
        found.at(kinds[1]).add(ABSENT, f"is there besides {kinds[0]}", "keep one of them")
        return
    for kind in kinds:
        if isinstance(volume[kind], Mapping):
            name = "secretName" if kind == "secret" else "name"
            _check_files(kind, volume[kind], name, found.at(kind))


def _check_files(kind: str, files: Mapping[str, Any], name: str, found: Findings) -> None:
    """`name` is the field that names the object."""
    _check_mode(files.get("defaultMode"), found.at("defaultMode"))
    if kind in ("configMap", "secret") and not files.get(name):
        found.at(name).add(ABSENT, "is missing", f"name the {kind}")
    for index, item in objects_in(files.get("items")):
        here = found.at("items", index)
        _check_path(item.get("path"), here.at("path"))
        _check_mode(item.get("mode"), here.at("mode"))
        if kind == "downwardAPI":
            _check_field(item.get("fieldRef"), (*FIELDS_OF_FILES, *FIELDS_IN_FULL), here)
        elif not item.get("key"):
            here.at("key").add(ABSENT, "is missing", "name a key of the object")
    for index, source in objects_in(files.get("sources")):
        for inner, part in source.items():
            if isinstance(part, Mapping):
                _check_files(inner, part, "name", found.at("sources", index, inner))


def _check_mode(mode: object, found: Findings) -> None:
    if isinstance(mode, int) and not 0 <= mode <= _MODE_MAX:
        found.add(mode, "is not a mode of a file", "write 0 to 0777 (in JSON 0 to 511)")


def _check_path(path: object, found: Findings) -> None:
    if not path or not isinstance(path, str):
        found.add(ABSENT, "is missing", "write the path of the file in its volume")
    elif path.startswith(("/", "..")) or ".." in PurePosixPath(path).parts:
        found.add(path, "leads out of its volume", "write a relative path without ..")


def _check_field(reference: object, known: Collection[str], found: Findings) -> None:
    path = reference.get("fieldPath") if isinstance(reference, Mapping) else None
    if isinstance(path, str) and path not in known and not FIELD_BY_KEY.fullmatch(path):
        here = found.at("fieldRef", "fieldPath")
        here.add(path, "is no field that a pod is told", f"write one of {', '.join(known)}")


# Containers


def _check_container(
    container: Mapping[str, Any], volumes: Collection[Any], found: Findings
) -> None:
    for index, variable in objects_in(container.get("env")):
        source = variable.get("valueFrom")
        if isinstance(source, Mapping):
            here = found.at("env", index, "valueFrom")
            _check_variable(source, bool(variable.get("value")), here)
    for index, source in objects_in(container.get("envFrom")):
        named = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        if len(named) != 1:
            hint = "write configMapRef or secretRef"
            found.at("envFrom", index).add(ABSENT, f"names {len(named)} objects", hint)
    for index, port in objects_in(container.get("ports")):
        if not port.get("containerPort"):
            hint = "write the port at which it listens"
            found.at("ports", index, "containerPort").add(ABSENT, "is missing", hint)
    places = []
    for index, mount in objects_in(container.get("volumeMounts")):
        _check_mount(mount, volumes, found.at("volumeMounts", index))
        places.append((str(mount.get("mountPath")), found.at("volumeMounts", index, "mountPath")))
    check_unique(places, "path")


def _check_variable(source: Mapping[str, Any], has_value: bool, found: Findings) -> None:
    named = [name for name in _SOURCES if source.get(name) is not None]
    if has_value or len(named) != 1:
        has = "a value as well" if has_value else f"{len(named)} sources"
        found.add(ABSENT, f"has {has}", f"write a value, or one of {', '.join(_SOURCES[:4])}")
        return
    _check_field(source.get("fieldRef"), FIELDS_OF_VARIABLES, found)
    for name in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(name)
        if isinstance(reference, Mapping) and not is_value_key(reference.get("key")):
            here = found.at(name, "key")
            here.add(reference.get("key", ABSENT), "is not a key", VALUE_KEY_HINT)


def _check_mount(mount: Mapping[str, Any], volumes: Collection[Any], found: Findings) -> None:
    if mount.get("name") not in volumes:
        hint = "name one of the pod's volumes"
        found.at("name").add(mount.get("name", ABSENT), "is no volume of the pod", hint)
    if not mount.get("mountPath"):
        found.at("mountPath").add(ABSENT, "is missing", "write where the container expects it")
    part = mount.get("subPath")
    if isinstance(part, str) and part:
        _check_path(part, found.at("subPath"))
