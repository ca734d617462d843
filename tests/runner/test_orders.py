"""A pod's document becomes command lines and variables, or a word why it can't run here."""

from base64 import b64decode
from typing import Any

import pytest

from makeway.api.codec import decode_unconverted
from makeway.api.kinds import CONFIG_MAPS, SECRETS, Resource
from makeway.api.labels import SHELL_LIMITS
from makeway.api.programs import PodOfPrograms
from makeway.runner.environment import NotYet, Refused, expand
from makeway.runner.host import Program, RunOrder
from makeway.runner.orders import order_for

NODE = {"cpu": 4000, "memory": 2**33}
VALUES = {
    (CONFIG_MAPS, "settings"): {"mode": b"fast", "app.ini": b"[a]"},
    (SECRETS, "token"): {"key": b"t0p", "raw": b"\xff\x01"},
    (SECRETS, "odd"): {"null": b"a\0b"},
}


def find(resource: Resource, name: str) -> dict[str, bytes] | None:
    return VALUES.get((resource, name))


def ordered(
    container: dict[str, Any],
    devices: dict[str, tuple[int, ...]] | None = None,
    node: dict[str, int] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> RunOrder:
    metadata = {
        "name": "train-0",
        "namespace": "lab",
        "uid": "u1",
        "labels": {"team": "vision"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "3", **(annotations or {})},
    }
    containers = [{"name": "main", "command": ["run"], **container}]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "here", "containers": containers, **spec},
    }
    pod = decode_unconverted(PodOfPrograms, document).object
    assert pod is not None
    return order_for(pod, node or NODE, devices or {}, find=find)


def test_limits_of_the_shell_come_along_or_are_refused_with_what_would_be_right() -> None:
    def limits(text: str) -> dict[str, int]:
        return dict(ordered({}, annotations={SHELL_LIMITS: text}).shell_limits)

    assert limits("umask=027 nofile=1024 core=unlimited") == {
        "umask": 0o027,
        "nofile": 1024,
        "core": -1,
    }
    with pytest.raises(Refused, match="'umask=9' is no limit; write umask=027"):
        limits("umask=9")


def program(container: dict[str, Any], **more: Any) -> Program:
    return ordered(container, **more).containers[0]


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


def amount(resource: str, **more: str) -> dict[str, Any]:
    return {"resourceFieldRef": {"resource": resource, **more}}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $", "$A $"),
        ("$()", "$()"),
    ],
)
def test_references_to_variables(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_command_and_arguments_are_one_command_line() -> None:
    container = {
        "command": ["run", "--n=$(N)"],
        "args": ["$(N)"],
        "env": [{"name": "N", "value": "7"}],
    }

    assert program(container).argv == ("run", "--n=7", "7")


def test_arguments_alone_are_the_command() -> None:
    assert program({"command": None, "args": ["run", "it"]}).argv == ("run", "it")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (field("metadata.name"), "train-0"),
        (field("metadata.namespace"), "lab"),
        (field("metadata.uid"), "u1"),
        (field("metadata.labels['team']"), "vision"),
        (field("metadata.annotations['batch.kubernetes.io/job-completion-index']"), "3"),
        (field("metadata.labels['none']"), ""),
        (field("spec.nodeName"), "here"),
        (field("spec.serviceAccountName"), "default"),
        (field("status.podIP"), "127.0.0.1"),
        (amount("limits.cpu"), "2"),
        (amount("limits.cpu", divisor="1m"), "1500"),
        (amount("requests.memory", divisor="1Mi"), "512"),
        (amount("limits.memory", divisor="1Gi"), "8"),
    ],
    ids=str,
)
def test_variables_from_fields(source: dict[str, Any], value: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "512Mi"}}
    found = program({"env": [{"name": "V", "valueFrom": source}], "resources": resources})

    assert found.env["V"] == value


def test_variables_from_config_maps_and_secrets() -> None:
    def of(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
        return {"valueFrom": {kind: {"name": name, "key": key, **more}}}

    env = [
        {"name": "MODE", **of("configMapKeyRef", "settings", "mode")},
        {"name": "RAW", **of("secretKeyRef", "token", "raw")},
        {"name": "NO_KEY", **of("secretKeyRef", "token", "none", optional=True)},
        {"name": "NO_MAP", **of("configMapKeyRef", "none", "mode", optional=True)},
        {"name": "S_key", "value": "own"},
        {"name": "ALL", "value": "$(MODE) $(app.ini)"},
    ]
    whole = [
        {"prefix": "S_", "secretRef": {"name": "token"}},
        {"configMapRef": {"name": "settings"}},
        {"configMapRef": {"name": "none", "optional": True}},
    ]
    found = program({"env": env, "envFrom": whole, "command": ["run", "$(app.ini)"]})

    assert found.env.items() >= {"MODE": "fast", "S_key": "own", "app.ini": "[a]"}.items()
    assert found.env["S_raw"] == found.env["RAW"] == "\udcff\x01"  # the bytes as they are
    assert found.env["ALL"] == "fast $(app.ini)"  # refers to what is written in env alone
    assert found.argv == ("run", "[a]")
    assert not found.env.keys() & {"NO_KEY", "NO_MAP"}


def files(**volume: Any) -> dict[str, tuple[bytes, int]]:
    order = ordered({}, volumes=[{"name": "v", **volume}])
    assert order.volumes == {"v": ""}
    return {file.path: (b64decode(file.content), file.mode) for file in order.files["v"]}


def test_files_of_config_maps_and_secrets() -> None:
    assert files(configMap={"name": "settings", "defaultMode": 0o640}) == {
        "app.ini": (b"[a]", 0o640),
        "mode": (b"fast", 0o640),
    }
    items = [{"key": "key", "path": "a/b", "mode": 0o400}, {"key": "raw", "path": "c"}]
    assert files(secret={"secretName": "token", "items": items}) == {
        "a/b": (b"t0p", 0o400),
        "c": (b"\xff\x01", 0o644),
    }
    assert files(configMap={"name": "none", "optional": True}) == {}


def test_files_of_several_sources() -> None:
    told = [
        {"path": "labels", **field("metadata.labels")},
        {"path": "cpu", **amount("limits.cpu", containerName="main")},
    ]
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "mode", "path": "mode"}]}},
        {"secret": {"name": "token", "items": [{"key": "key", "path": "mode"}]}},  # wins
        {"downwardAPI": {"items": told}},
    ]
    assert files(projected={"sources": sources, "defaultMode": 0o600}) == {
        "mode": (b"t0p", 0o600),
        "labels": (b'team="vision"', 0o600),
        "cpu": (b"4", 0o600),
    }


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"configMap": {"name": "none"}}, 'failed for volume "v" : configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'failed for volume "v" : secret "none" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "k", "path": "p"}]}},
            "references non-existent config key: k",
        ),
    ],
    ids=["map", "secret", "key"],
)
def test_a_volume_waits_for_what_it_is_made_of(source: dict[str, Any], why: str) -> None:
    with pytest.raises(NotYet, match=why) as missing:
        ordered({}, volumes=[{"name": "v", **source}])
    assert missing.value.container == ""


def test_a_container_waits_for_a_key() -> None:
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "none"}}}]
    with pytest.raises(NotYet, match="couldn't find key none in Secret lab/token") as missing:
        ordered({"env": env})
    assert missing.value.container == "main"


def test_files_that_are_in_each_others_way_are_refused() -> None:
    items = [{"key": "mode", "path": "a"}, {"key": "app.ini", "path": "a/b"}]
    with pytest.raises(Refused, match="volume v: no file can be at a/b"):
        files(configMap={"name": "settings", "items": items})


def test_a_variable_may_refer_to_those_before_it() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2$(C)"}, {"name": "C"}]

    assert program({"env": env}).env["B"] == "12$(C)"


@pytest.mark.parametrize(
    ("container", "spec", "why"),
    [
        ({"command": []}, {}, "has no command: there is no image to run"),
        (
            {"env": [{"name": "S", "valueFrom": {"fileKeyRef": {"path": "s", "key": "k"}}}]},
            {},
            "comes from fileKeyRef, which is not supported",
        ),
        ({"envFrom": [{"secretRef": {"name": "odd"}}]}, {}, "null has a null byte in it"),
        ({"env": [{"name": "F", "valueFrom": field("status.qosClass")}]}, {}, "no field"),
        ({"lifecycle": {"preStop": {}}}, {}, "lifecycle hooks are not supported"),
        ({}, {"volumes": [{"name": "v", "nfs": {"server": "s"}}]}, "of type nfs"),
        (
            {},
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            "volume v: serviceAccountToken: there are no service accounts here",
        ),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, {}, "there is no volume v"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/sys/fs", "readOnly": True}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/sys/fs"}}]},
            "volume v: readOnly can't be held at /sys/fs, where nothing is mounted; leave it out",
        ),
        ({"readinessProbe": {"grpc": {"port": 1}}}, {}, "readinessProbe asks in a way"),
        ({"readinessProbe": {"tcpSocket": {"port": "web"}}}, {}, "has no port named web"),
    ],
)
def test_what_cannot_run_is_refused_with_a_word(
    container: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        ordered(container, **spec)


@pytest.mark.parametrize(
    "mounts",
    [
        [{"name": "a", "mountPath": "/../etc"}],
        [{"name": "a", "mountPath": "/x", "subPath": "../b"}],
        [{"name": "a", "mountPath": "/"}],
        [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/"}],
        [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/y"}],
    ],
    ids=["above", "beside", "root", "twice", "nested"],
)
def test_a_mount_that_cannot_be_shown_in_the_scratch_folder_is_refused(
    mounts: list[dict[str, Any]],
) -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]

    with pytest.raises(Refused):
        ordered({"volumeMounts": mounts}, volumes=volumes)


def test_a_probe_finds_a_port_by_its_name() -> None:
    probe = {"httpGet": {"port": "web", "path": "/ready"}, "periodSeconds": 3}
    found = program(
        {"ports": [{"name": "web", "containerPort": 8080}], "readinessProbe": probe}
    ).probes["readiness"]

    assert (found.kind, found.port, found.path, found.period_s) == ("http", 8080, "/ready", 3)


def test_a_container_sees_its_gpus_and_no_others() -> None:
    node = NODE | {"nvidia.com/gpu": 8, "amd.com/gpu": 2}
    asks = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    found = program(asks, devices={"nvidia.com/gpu": (3, 5)}, node=node)

    assert found.env["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert found.env["HIP_VISIBLE_DEVICES"] == ""


def test_containers_of_a_pod_share_no_gpu_but_with_init_containers() -> None:
    def asks(name: str, count: int, **more: Any) -> dict[str, Any]:
        limits = {"limits": {"nvidia.com/gpu": count}}
        return {"name": name, "command": ["run"], "resources": limits, **more}

    init = [asks("side", 1, restartPolicy="Always"), asks("first", 2)]
    order = ordered(
        asks("main", 1),
        devices={"nvidia.com/gpu": (4, 5, 6)},
        node=NODE | {"nvidia.com/gpu": 8},
        initContainers=init,
    )

    seen = {one.name: one.env["CUDA_VISIBLE_DEVICES"] for one in (*order.init, *order.containers)}
    assert seen == {"side": "4", "first": "5,6", "main": "5"}
