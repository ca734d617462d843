"""Whatever comes in: an object, or errors. Never an exception, never both."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.api.codec import decode, encode, json_name
from makeway.api.defaults import with_defaults
from makeway.api.intake import take_in
from makeway.api.kinds import KINDS, UNSUPPORTED_KINDS
from makeway.api.manifests import read_manifests
from makeway.api.validation import validate, validate_set
from makeway.api.versions import from_hub, to_hub
from tests.api.reading import document
from tests.api.test_validation import JOB, QUEUE, RESERVED
from tests.api.test_versions import ALPHA_QUEUE, OLD_QUEUE
from tests.prerequisites import samples

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
requeueStrategy: {priorityPreemption: UseEvictionTimestamp}
waitForPodsReady: {timeout: 5m, requeuingStrategy: {timestamp: Eviction, backoffBaseSeconds: 1}}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
featureGates: {PartialAdmission: false, MultiKueue: true}
resources: {transformations: [{input: cpu, outputs: {credits: 1}}]}
"""

WORDS = [
    "name", "metadata", "spec", "status", "labels", "annotations", "resource_groups", "flavors",
    "covered_resources", "resources", "nominal_quota", "borrowing_limit", "min", "max", "quota",
    "cohort", "cohort_name", "preemption", "within_cohort", "borrow_within_cohort", "policy",
    "flavor_fungibility", "fallback_strategy", "flavor_fallback_strategy", "rules", "timeout",
    "timeout_minutes", "trigger", "admission_checks", "admission_checks_strategy", "pod_sets",
    "template", "containers", "init_containers", "requests", "limits", "count", "min_count",
    "tolerations", "key", "operator", "effect", "affinity", "node_affinity", "conditions",
    "type", "admission", "pod_set_assignments", "resource_usage", "priority_class_ref",
    "namespace_selector", "match_labels", "match_expressions", "values", "parent_name",
    "wait_for_pods_ready", "requeuing_strategy", "feature_gates", "selector", "min_available",
    "parallelism", "value", "taints", "node_labels", "node_taints", "weight", "fair_sharing",
    "priority_class_name", "priority_class_source", "enable", "transformations", "outputs",
]  # fmt: skip
keys = st.one_of(st.sampled_from([json_name(word) for word in WORDS]), st.text(max_size=5))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["cpu", "1", "-1", "4Gi", "Never", "Any", "True", "main", "*", "10m", "In",
                     "Exists", "NoSchedule", "2026-01-15T12:00:00Z", "LowerPriority"]),
)  # fmt: skip
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=30,
)
heads = st.sampled_from(
    [(kind.API_VERSION, kind.KIND) for kind in KINDS.values()]
    + [(kind.API_VERSION.replace("v1beta2", "v1beta1"), kind.KIND) for kind in KINDS.values()]
    + [(f"{group}/v1beta2", kind) for group, kind in UNSUPPORTED_KINDS]
    + [("v1", "Thing"), ("", "")]
)


SOUND: list[dict[str, Any]] = [
    dict(document(text)) for text in (QUEUE, RESERVED, JOB, OLD_QUEUE, ALPHA_QUEUE, CONFIGURATION)
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    api_version, kind = draw(heads)
    body = draw(st.dictionaries(keys, values, max_size=6))
    return {**body, "apiVersion": api_version, "kind": kind}


@settings(max_examples=samples(400), deadline=None)
@given(documents())
def test_a_document_gives_an_object_or_errors_all_the_way_in(document: dict[str, Any]) -> None:
    decoded = decode(document)

    assert (decoded.object is None) == bool(decoded.errors)
    assert all(str(error) for error in decoded.errors)
    if decoded.object is not None:
        assert isinstance(validate(decoded.object, decoded.object), tuple)
        assert isinstance(validate_set([decoded.object]), tuple)
        assert decode(encode(decoded.object)).errors == ()
    intake = take_in(document)
    assert (intake.object is None) == bool(intake.errors)
    assert (intake.document is None) == bool(intake.errors)
    hub = to_hub(document).document
    assert from_hub(with_defaults(hub), "v1beta1") is not None


@st.composite
def damaged_documents(draw: st.DrawFn) -> dict[str, Any]:
    """A sound document in which one to three parts are replaced, removed or added to."""
    document = draw(st.sampled_from(SOUND)).copy()
    for _ in range(draw(st.integers(1, 3))):
        document = draw(damaged(document))
    return document if isinstance(document, dict) else {}


@st.composite
def damaged(draw: st.DrawFn, part: Any) -> Any:
    if isinstance(part, dict) and part and draw(st.integers(0, 9)) > 0:
        key = draw(st.sampled_from(sorted(part)))
        if draw(st.integers(0, 9)) == 0:
            return {name: value for name, value in part.items() if name != key}
        return {**part, key: draw(damaged(part[key]))}
    if isinstance(part, list) and part and draw(st.integers(0, 9)) > 0:
        index = draw(st.integers(0, len(part) - 1))
        return [*part[:index], draw(damaged(part[index])), *part[index:]]
    return draw(values)


@settings(max_examples=samples(400), deadline=None)
@given(damaged_documents(), st.sampled_from(["v1beta1", "v1beta2"]))
def test_a_damaged_document_gives_an_object_or_errors(
    document: dict[str, Any], version: str
) -> None:
    written = document.get("apiVersion")
    if isinstance(written, str):
        document = {**document, "apiVersion": written.replace("v1beta2", version)}

    intake = take_in(document)
    again = take_in(document, intake.object)

    assert (intake.object is None) == bool(intake.errors)
    assert again.object == intake.object
    assert all(str(error) for error in intake.errors)


@given(values)
def test_a_value_that_is_no_document_is_refused(value: Any) -> None:
    if not isinstance(value, dict):
        assert decode(value).errors
        assert take_in(value).errors


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%\n \t,?0\x00\ud800", max_size=60))
def test_any_text_gives_manifests_or_troubles(text: str) -> None:
    found = read_manifests(text)

    assert all(isinstance(manifest.document, dict) for manifest in found.manifests)
    assert all(str(trouble) for trouble in found.troubles)
    for manifest in found.manifests:
        manifest.locate("spec.a[0][x.y]")
