"""ConfigMaps and Secrets, and pods that read them."""

from base64 import b64encode
from typing import Any

from tests.harness.documents import Document, container, pod
from tests.kube.stories.registry import kubectl_story, story
from tests.kube.story_client import MERGE, StoryClient

_MEBIBYTE = 1024 * 1024


def _map(name: str, **parts: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **parts}


def _secret(name: str, **parts: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **parts}


def _coded(text: str) -> str:
    return b64encode(text.encode()).decode()


@story
async def values_are_kept_by_key(t: StoryClient) -> None:
    maps, secrets = t.core("configmaps"), t.core("secrets")
    both = _map("m", data={"a": "1", "b.txt": "x\ny"}, binaryData={"c": _coded("\0")})
    await t.call("a map", "POST", maps, both)
    await t.call("an empty one", "POST", maps, _map("empty"))
    await t.call("a patch", "PATCH", f"{maps}/m", {"data": {"a": "2"}}, MERGE)
    await t.call("a null takes away", "PATCH", f"{maps}/m", {"data": {"a": None}}, MERGE)
    texts = _secret("s", data={"a": _coded("1")}, stringData={"a": "2", "b": "ü"})
    await t.call("a secret of texts", "POST", secrets, texts)
    await t.call("as it is read", "GET", f"{secrets}/s")
    await t.call("more text", "PATCH", f"{secrets}/s", {"stringData": {"c": "3"}}, MERGE)
    login = _secret("login", type="kubernetes.io/basic-auth", stringData={"username": "ada"})
    await t.call("of a type", "POST", secrets, login)
    await t.call("deleted", "DELETE", f"{secrets}/s")


_BAD_MAPS: dict[str, Document] = {
    "a bad key": {"data": {"a b": "1"}},
    "a dot": {"data": {".": "1"}},
    "two dots first": {"data": {"..a": "1"}},
    "a long key": {"data": {"a" * 254: "1"}},
    "a bad binary key": {"binaryData": {"a/b": _coded("1")}},
    "a key twice": {"data": {"a": "1"}, "binaryData": {"a": _coded("1")}},
    "too long": {"data": {"a": "x" * _MEBIBYTE, "b": "x"}},
    "a number": {"data": {"a": 1}},
    "no base64": {"binaryData": {"a": "!"}},
}
_BAD_SECRETS: dict[str, Document] = {
    "a bad key of a secret": {"stringData": {"a b": "1"}},
    "too long a secret": {"stringData": {"a": "x" * (_MEBIBYTE + 1)}},
    "no base64 in a secret": {"data": {"a": "plain text"}},
    "tls without a key": {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "x"}},
    "ssh without a key": {"type": "kubernetes.io/ssh-auth"},
    "nobody's login": {"type": "kubernetes.io/basic-auth"},
    "no docker config": {"type": "kubernetes.io/dockerconfigjson"},
    "no JSON": {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "x"}},
    "of nobody": {"type": "kubernetes.io/service-account-token"},
}


@story
async def bad_values_are_refused(t: StoryClient) -> None:
    for number, (step, parts) in enumerate(_BAD_MAPS.items()):
        await t.call(step, "POST", t.core("configmaps"), _map(f"m{number}", **parts))
    for number, (step, parts) in enumerate(_BAD_SECRETS.items()):
        await t.call(step, "POST", t.core("secrets"), _secret(f"s{number}", **parts))


@story
async def what_is_immutable_stays(t: StoryClient) -> None:
    for plural, document in (
        ("configmaps", _map("m", data={"a": "1"}, immutable=True)),
        ("secrets", _secret("m", data={"a": _coded("1")}, immutable=True)),
    ):
        url = t.core(plural, "m")
        await t.quiet("POST", t.core(plural), document)
        other = {"data": {"a": _coded("2")}}
        await t.call(f"{plural}: another value", "PATCH", url, other, MERGE)
        await t.call(f"{plural}: mutable", "PATCH", url, {"immutable": False}, MERGE)
        await t.call(f"{plural}: no word of it", "PATCH", url, {"immutable": None}, MERGE)
        label = {"metadata": {"labels": {"a": "b"}}}
        await t.call(f"{plural}: a label", "PATCH", url, label, MERGE, show=("metadata.labels",))
    typed = {"type": "example.com/other"}
    await t.call("another type", "PATCH", t.core("secrets", "m"), typed, MERGE)


def _reading(name: str, *volumes: Document, **of_container: Any) -> Document:
    return pod(name, volumes=list(volumes), containers=[container(**of_container)])


_NAME = {"fieldPath": "metadata.name"}


@story
async def volumes_are_completed(t: StoryClient) -> None:
    projected = {
        "sources": [
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "b/c"}]}},
            {"secret": {"name": "s", "optional": True}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": _NAME}]}},
        ]
    }
    document = _reading(
        "p",
        {"name": "map", "configMap": {"name": "m"}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": _NAME}]}},
        {"name": "all", "projected": projected},
        env=[
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}},
            {"name": "B", "valueFrom": {"fieldRef": _NAME}},
        ],
        envFrom=[{"prefix": "S_", "secretRef": {"name": "s"}}],
    )
    show = ("spec.volumes", "spec.containers.0.env", "spec.containers.0.envFrom")
    await t.call("volumes and variables", "POST", t.pods(), document, show=show)


_FROM = {"name": "m", "key": "a"}
_BAD_VOLUMES: dict[str, Document] = {
    "a map without a name": {"configMap": {}},
    "a secret without a name": {"secret": {}},
    "a mode": {"configMap": {"name": "m", "defaultMode": 0o1777}},
    "a path that leads out": {"configMap": {"name": "m", "items": [{"key": "a", "path": "../b"}]}},
    "an absolute path": {"secret": {"secretName": "s", "items": [{"key": "a", "path": "/b"}]}},
    "an item without a key": {"configMap": {"name": "m", "items": [{"path": "b"}]}},
    "a field that is none": {
        "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nope"}}]}
    },
    "two sources": {"configMap": {"name": "m"}, "emptyDir": {}},
}
_BAD_VARIABLES: dict[str, Document] = {
    "a value and a source": {
        "env": [{"name": "A", "value": "1", "valueFrom": {"configMapKeyRef": _FROM}}]
    },
    "two sources of a variable": {
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": _FROM, "secretKeyRef": _FROM}}]
    },
    "no source": {"env": [{"name": "A", "valueFrom": {}}]},
    "a key that is none": {
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a b"}}}]
    },
    "all of nothing": {"envFrom": [{"prefix": "A"}]},
    "all of two": {"envFrom": [{"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}]},
    "a mount of no volume": {"volumeMounts": [{"name": "nope", "mountPath": "/a"}]},
    "a mount at nothing": {"volumeMounts": [{"name": "v", "mountPath": ""}]},
    "two mounts at one path": {
        "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]
    },
    "a part that leads out": {
        "volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]
    },
}


@story
async def bad_volumes_are_refused(t: StoryClient) -> None:
    show = ("metadata.name",)
    for number, (step, source) in enumerate(_BAD_VOLUMES.items()):
        document = _reading(f"v{number}", {"name": "v", **source})
        await t.call(step, "POST", t.pods(), document, show=show)
    for number, (step, parts) in enumerate(_BAD_VARIABLES.items()):
        document = _reading(f"e{number}", {"name": "v", "emptyDir": {}}, **parts)
        await t.call(step, "POST", t.pods(), document, show=show)


@kubectl_story
async def kubectl_keeps_values(t: StoryClient) -> None:
    words = ("--from-literal=a=1", "--from-literal=b=x y")
    t.kubectl("a map", "create", "configmap", "m", *words)
    t.kubectl("a secret", "create", "secret", "generic", "s", *words)
    login = ("--docker-server=example.com", "--docker-username=ada", "--docker-password=p")
    t.kubectl("a login", "create", "secret", "docker-registry", "d", *login)
    t.kubectl("the map", "get", "configmap", "m")
    t.kubectl("secrets", "get", "secrets")
    t.kubectl("one of them", "describe", "secret", "s", sort=True)  # kubectl has no order of keys
    t.kubectl("a value", "get", "secret", "s", "-o", "jsonpath={.data.a} {.type}")
