"""The files of a pod's volumes: values of ConfigMaps and Secrets, and what it is told of itself."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from makeway.api.kinds import CONFIG_MAPS, SECRETS, Resource
from makeway.api.programs import (
    FileOfPod,
    FilesOfValues,
    KeyToPath,
    ObjectSelector,
    PodOfPrograms,
    Projected,
    Projection,
    Volume,
)
from makeway.runner.environment import (
    FindValues,
    NotYet,
    Refused,
    field_text,
    resource_text,
    values_of,
)
from makeway.runner.host import File

PATH_MAX = 4096  # limits.h
FILES_MAX_BYTES = 8 * 1024 * 1024  # of one pod: they travel with the order to run it
_NO_ACCOUNTS = "there are no service accounts here, so there is no token to give"
_KEY_WORDS = {CONFIG_MAPS: "config", SECRETS: "secret"}


def files_of(
    pod: PodOfPrograms, allocatable: Mapping[str, int], find: FindValues
) -> dict[str, tuple[File, ...]]:
    """By volume, for those that have files from the start."""
    found: dict[str, tuple[File, ...]] = {}
    for volume in pod.spec.volumes:
        if has_files(volume):
            found[volume.name] = _of_volume(volume, pod, allocatable, find)
    size = sum(len(file.content) for files in found.values() for file in files) * 3 // 4
    if size > FILES_MAX_BYTES:
        raise Refused(
            f"the files of its volumes have {size} bytes, may not be more than {FILES_MAX_BYTES}; "
            "large things belong into a folder, by hostPath"
        )
    return found


def has_files(volume: Volume) -> bool:
    kinds = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    return any(kind is not None for kind in kinds)


def is_secret(volume: Volume) -> bool:
    if volume.projected is not None:
        return any(source.secret is not None for source in volume.projected.sources)
    return volume.secret is not None


def _of_volume(
    volume: Volume, pod: PodOfPrograms, allocatable: Mapping[str, int], find: FindValues
) -> tuple[File, ...]:
    """Of two files at one path the later counts."""
    projected = volume.projected or _as_projected(volume)
    files: dict[str, File] = {}
    try:
        for source in projected.sources:
            for file in _of_source(source, projected.default_mode, pod, allocatable, find):
                files[file.path] = file
    except NotYet as missing:
        what = f'MountVolume.SetUp failed for volume "{volume.name}" : {missing}'
        raise NotYet(what) from None
    except Refused as refused:
        raise Refused(f"volume {volume.name}: {refused}") from None
    _check_places(volume.name, files)
    return tuple(files.values())


def _as_projected(volume: Volume) -> Projected:
    """A volume of one source."""
    source = Projection(
        config_map=volume.config_map, secret=volume.secret, downward_api=volume.downward_api
    )
    whole = volume.config_map or volume.secret or volume.downward_api
    assert whole is not None, volume
    return Projected(sources=(source,), default_mode=whole.default_mode)


def _of_source(
    source: Projection,
    mode: int,
    pod: PodOfPrograms,
    allocatable: Mapping[str, int],
    find: FindValues,
) -> Iterator[File]:
    if source.config_map is not None:
        yield from _of_values(CONFIG_MAPS, source.config_map, mode, find)
    elif source.secret is not None:
        yield from _of_values(SECRETS, source.secret, mode, find)
    elif source.downward_api is not None:
        for item in source.downward_api.items:
            yield _file(item.path, _told(item, pod, allocatable).encode(), item.mode, mode)
    else:
        kind = next(iter(source.document or ()), "nothing")
        why = _NO_ACCOUNTS if kind == "serviceAccountToken" else "that is not supported"
        raise Refused(f"{kind}: {why}; use configMap, secret or downwardAPI")


def _of_values(
    resource: Resource, files: FilesOfValues, mode: int, find: FindValues
) -> Iterator[File]:
    name = files.secret_name or files.name
    values = values_of(resource, ObjectSelector(name=name, optional=files.optional), find)
    items: Iterable[KeyToPath] = files.items or [KeyToPath(key=key, path=key) for key in values]
    for item in items:
        if item.key in values:
            yield _file(item.path, values[item.key], item.mode, mode)
        elif not files.optional:
            raise NotYet(f"references non-existent {_KEY_WORDS[resource]} key: {item.key}")


def _told(item: FileOfPod, pod: PodOfPrograms, allocatable: Mapping[str, int]) -> str:
    named = f"file {item.path}"
    if item.field_ref is not None:
        return field_text(pod, item.field_ref, named)
    if item.resource_field_ref is not None:
        return resource_text(pod, "", item.resource_field_ref, allocatable, named)
    raise Refused(f"{named} has neither fieldRef nor resourceFieldRef")


def _file(path: str, content: bytes, mode: int | None, otherwise: int) -> File:
    chosen = otherwise if mode is None else mode
    return File(path=path, content=b64encode(content).decode(), mode=chosen)


def _check_places(volume: str, files: Mapping[str, File]) -> None:
    """A path must not need another file for a folder, nor lead out."""
    for path in files:
        if len(path) > PATH_MAX:
            raise Refused(f"volume {volume}: a path of {len(path)} letters; at most {PATH_MAX}")
        place = PurePosixPath(path)
        is_taken = any(str(parent) in files for parent in place.parents)
        if place.is_absolute() or ".." in place.parts or is_taken or not place.parts:
            raise Refused(f"volume {volume}: no file can be at {path}")
