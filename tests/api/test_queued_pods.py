"""Pods that name a queue, and groups of them: what is refused, and what is told."""

import pytest

from tests.api.reading import complaints, unsupported

GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"


def pod(*, labels: str = "", annotations: str = "") -> str:
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{{labels}}}, "
        f"annotations: {{{annotations}}}}}, spec: {{containers: [{{name: main}}]}}}}"
    )


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ("kueue.x-k8s.io/queue-name: main", ""),
        (f"{GROUP}: ring", f'{TOTAL}: "2"'),
        (f'{GROUP}: ring, {TOTAL}: "2"', ""),
        ("", f'{GROUP}: ring, {TOTAL}: "2", kueue.x-k8s.io/retriable-in-group: "false"'),
    ],
)
def test_queued_pods_and_groups_pass(labels: str, annotations: str) -> None:
    text = pod(labels=labels, annotations=annotations)

    assert complaints(text) == []
    assert unsupported(text) == []


@pytest.mark.parametrize(
    ("labels", "annotations", "complaint"),
    [
        (f"{GROUP}: ring", "", "is needed by a group"),
        ("", f'{TOTAL}: "2"', "is needed by a number of pods"),
        (f"{GROUP}: ring", f'{TOTAL}: "0"', "is not a number of pods"),
        (f"{GROUP}: ring", f"{TOTAL}: many", "is not a number of pods"),
        (f"{GROUP}: Ring_1", f'{TOTAL}: "2"', GROUP),
        ("kueue.x-k8s.io/queue-name: Main_1", "", "queue-name"),
    ],
)
def test_a_group_that_no_queue_could_understand_is_refused(
    labels: str, annotations: str, complaint: str
) -> None:
    [told] = complaints(pod(labels=labels, annotations=annotations))

    assert complaint in told


def test_groups_that_serve_are_not_supported_and_told_so() -> None:
    text = pod(annotations='kueue.x-k8s.io/pod-group-serving: "true"')

    assert unsupported(text) == ["metadata.annotations[kueue.x-k8s.io/pod-group-serving]"]
