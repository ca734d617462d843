"""Manifests that people already have pass unchanged."""

import gzip
import json

import pytest

from makeway.api.codec import decode, encode
from makeway.api.intake import take_in
from makeway.api.manifests import read_manifests
from makeway.api.validation import validate_set
from tests.prerequisites import shared_path

SAMPLES = [
    "kueue-pod", "kueue-pod-group", "minimal-cq", "multikueue-setup", "provisioning-setup",
    "quick-start-job", "quick-start-setup", "resource-flavor-empty", "resource-flavor-taints",
    "resource-flavor-tolerations", "sample-admission-check", "sample-job",
    "sample-job-partial-admission", "shared-quota-sample-job", "shared-quota-setup",
    "single-clusterqueue-setup", "tas-sample-queues",
]  # fmt: skip
# What these samples ask for and Makeway does not have.
REPORTED = {
    "multikueue-setup": 3, "provisioning-setup": 2, "sample-admission-check": 1,
    "tas-sample-queues": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_published_sample_passes_unchanged(name: str) -> None:
    path = shared_path(f"samples/kueue/{name}.yaml")

    found = read_manifests(path.read_text(), path.name)
    taken = [take_in(manifest.document) for manifest in found.manifests]

    assert found.troubles == ()
    assert [str(error) for intake in taken for error in intake.errors] == []
    assert validate_set([intake.object for intake in taken if intake.object is not None]) == ()
    assert sum(len(intake.unsupported) for intake in taken) == REPORTED.get(name, 0)


def test_no_sample_is_left_out() -> None:
    assert sorted(path.stem for path in shared_path("samples/kueue").glob("*.yaml")) == SAMPLES


def recorded_objects(family: str) -> list[dict[str, object]]:
    path = shared_path(f"conformance/{family}.jsonl.gz")
    kinds = ("resourceFlavors", "cohorts", "clusterQueues", "localQueues", "workloads")
    with gzip.open(path, "rt") as lines:
        return [found for line in lines for kind in kinds for found in json.loads(line)[kind]]


@pytest.mark.parametrize("family", ["quirks", "kueue-table"])
def test_recorded_objects_are_read_and_written_back(family: str) -> None:
    for document in recorded_objects(family):
        decoded = decode(document)
        assert decoded.errors == ()
        assert decode(encode(decoded.object)).object == decoded.object


@pytest.mark.parametrize("family", ["quirks", "flavor-eligibility", "hierarchical-cohorts"])
def test_recorded_objects_that_keep_to_the_rules_of_the_api_pass(family: str) -> None:
    for document in recorded_objects(family):
        assert [str(error) for error in take_in(document).errors] == []
