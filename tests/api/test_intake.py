"""What a user hands in comes back with everything that is wrong with it, at once."""

from __future__ import annotations

from makeway.api.intake import take_in
from tests.api.reading import document

BROKEN = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  queueingStrategy: FIFO
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: spot
      resources: [{name: cpu, nominalQuota: -3}]
    - name: reserved
      resources: [{name: cpu, nominalQuota: plenty}]
  stopPolicy: None
  cohort: lab
"""


def test_all_errors_of_form_come_at_once() -> None:
    intake = take_in(document(BROKEN))

    assert intake.object is None
    assert sorted(error.path for error in intake.errors) == [
        "spec.cohort",
        "spec.queueingStrategy",
        "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota",
    ]


def test_errors_of_sense_come_with_those_of_form() -> None:
    text = BROKEN.replace("plenty", "4")
    paths = [error.path for error in take_in(document(text)).errors]

    assert "spec.queueingStrategy" in paths
    assert "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota" in paths


def test_a_part_that_can_not_do_without_the_malformed_field_is_left_out_with_it() -> None:
    text = BROKEN.replace("nominalQuota: plenty", "borrowingLimit: 1")
    errors = take_in(document(text)).errors

    assert "spec.resourceGroups[0].flavors[1].resources[0].nominalQuota" in {
        error.path for error in errors
    }
    assert not [error for error in errors if error.path == "spec.resourceGroups"]


def test_nothing_is_left_of_a_document_without_a_kind() -> None:
    intake = take_in({"apiVersion": "v1", "spec": {"x": 1}})

    assert intake.errors
    assert intake.readable is None
