"""What has no effect on one machine is kept, and who writes it is told."""

from typing import Any

import pytest

from makeway.api.codec import decode
from makeway.server.unheeded import unheeded


def told(kind: str, spec: dict[str, Any], version: str = "v1") -> list[str]:
    """The fields that are named."""
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    return [
        sentence.partition(" ")[0].rstrip(":") for sentence in unheeded(decode(document).object)
    ]


POD = {
    "containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
    "restartPolicy": "Never",
}
FIELDS = ["volumes[0].emptyDir.medium", "volumes[0].emptyDir.sizeLimit"]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "above"),
    [
        ("Pod", "v1", POD, "spec"),
        ("Job", "batch/v1", {"template": {"spec": POD}}, "spec.template.spec"),
        (
            "CronJob",
            "batch/v1",
            {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": POD}}}},
            "spec.jobTemplate.spec.template.spec",
        ),
    ],
)
def test_of_pods_wherever_they_are_made_of(
    kind: str, version: str, spec: dict[str, Any], above: str
) -> None:
    assert told(kind, spec, version) == [f"{above}.{field}" for field in FIELDS]


def test_of_services() -> None:
    plain = {"ports": [{"port": 80}], "clusterIP": "127.0.0.1"}
    assert told("Service", plain) == []
    assert told("Service", {**plain, "type": "NodePort"}) == ["spec.type"]
    assert told("Service", {**plain, "sessionAffinity": "ClientIP"}) == ["spec.sessionAffinity"]
    elsewhere = {**plain, "ports": [{"port": 80, "targetPort": 8080}]}
    assert told("Service", elsewhere) == ["spec.ports[0].port"]
