"""Rules for ConfigMaps and Secrets. Values of a Secret never stand in an error."""

import json
from collections.abc import Iterable, Mapping

from makeway.api.errors import ABSENT
from makeway.api.key_values import VALUES_MAX_BYTES, ConfigMap, Secret
from makeway.api.validation.findings import Findings
from makeway.api.validation.pod_sources import VALUE_KEY_HINT, is_value_key

# What a Secret of a type has to have.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON = ("kubernetes.io/dockercfg", "kubernetes.io/dockerconfigjson")
_BASIC_AUTH, _LOGIN = "kubernetes.io/basic-auth", ("username", "password")
_OF_ACCOUNT, _ACCOUNT = (
    "kubernetes.io/service-account-token",
    "kubernetes.io/service-account.name",
)


def check_config_map(config_map: ConfigMap, found: Findings) -> None:
    _check_keys(config_map.data, found.at("data"))
    _check_keys(config_map.binary_data, found.at("binaryData"))
    for key in config_map.data.keys() & config_map.binary_data.keys():
        here = found.at("data", key)
        here.add(key, "stands in binaryData, too", "keep one of them")
    _check_size(config_map.values().values(), found)


def check_secret(secret: Secret, found: Findings) -> None:
    data = found.at("data")
    _check_keys(secret.data, data)
    _check_size(secret.values().values(), data)
    for key in _NEEDED.get(secret.type, ()):
        if key not in secret.data:
            data.at(key).add(ABSENT, f"is needed by the type {secret.type}", "write it")
        elif secret.type in _JSON and not _is_json(secret.values()[key]):
            data.at(key).add(ABSENT, "is not JSON", "write the file that docker login makes")
    if secret.type == _BASIC_AUTH and not secret.data.keys() & set(_LOGIN):
        for key in _LOGIN:
            data.at(key).add(ABSENT, f"is needed by the type {secret.type}", "write one of them")
    if secret.type == _OF_ACCOUNT and not secret.metadata.annotations.get(_ACCOUNT):
        here = found.at("metadata", "annotations", _ACCOUNT)
        here.add(ABSENT, f"is needed by the type {secret.type}", "name the service account")


def check_values_kept(old: ConfigMap | Secret, new: ConfigMap | Secret, found: Findings) -> None:
    """What is immutable stays so, with all that it holds."""
    if not old.immutable:
        return
    hint = "create another one"
    if not new.immutable:
        found.at("immutable").add(new.immutable, "cannot be taken back", hint)
    for place, name in (("data", "data"), ("binary_data", "binaryData")):
        if getattr(old, place, None) != getattr(new, place, None):
            found.at(name).add(ABSENT, "cannot be changed: the object is immutable", hint)


def _check_keys(keys: Iterable[str], found: Findings) -> None:
    for key in keys:
        if not is_value_key(key):
            found.at(key).add(key, "is not a key", VALUE_KEY_HINT)


def _check_size(values: Iterable[bytes], found: Findings) -> None:
    size = sum(map(len, values))
    if size > VALUES_MAX_BYTES:
        problem = f"is too long: {size} bytes, may not be more than {VALUES_MAX_BYTES}"
        found.add(ABSENT, problem, "keep large things in files")


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
