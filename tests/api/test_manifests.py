import pytest

from makeway.api.manifests import read_manifests

SEVERAL = """\
# two queues and a list
kind: A
---
# nothing here
---
kind: B
spec:
  quota:
  - name: cpu
  - name: memory
    nominalQuota: -1
---
apiVersion: v1
kind: List
items:
- kind: C
- kind: D
  spec: {x: 1}
"""


def test_documents_come_with_the_place_where_they_stand() -> None:
    found = read_manifests(SEVERAL, "queues.yaml")

    assert found.troubles == ()
    assert [(m.document["kind"], m.index, str(m.position)) for m in found.manifests] == [
        ("A", 0, "queues.yaml:2"),
        ("B", 2, "queues.yaml:6"),
        ("C", 3, "queues.yaml:16"),
        ("D", 3, "queues.yaml:17"),
    ]


@pytest.mark.parametrize(
    ("number", "path", "line"),
    [
        (1, "spec.quota[1].nominalQuota", 11),
        (1, "spec.quota[1].borrowingLimit", 10),
        (1, "spec.quota[7]", 8),
        (1, "metadata.name", 6),
        (3, "spec.x", 18),
    ],
    ids=["field", "missing-field", "missing-item", "missing-all", "in-a-list"],
)
def test_a_path_leads_back_to_its_line(number: int, path: str, line: int) -> None:
    manifest = read_manifests(SEVERAL, "queues.yaml").manifests[number]

    assert manifest.locate(path).line == line


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-01-15", "2026-01-15"),
        ("2026-01-15T12:00:00Z", "2026-01-15T12:00:00Z"),
        ("1:30", "1:30"),
        ("9", 9),
        ("-9", -9),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("0x10", 16),
        ("010", 8),
        ("08", 8.0),
        ("1e999", "1e999"),
        ("500m", "500m"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ('"9"', "9"),
        ("'true'", "true"),
        ("!!str 9", "9"),
        ("|\n  two\n  lines", "two\nlines"),
    ],
)
def test_scalars_are_read_as_kubectl_reads_them(written: str, value: object) -> None:
    (manifest,) = read_manifests(f"x: {written}").manifests

    assert manifest.document["x"] == value


def test_anchors_and_merged_keys_work() -> None:
    (manifest,) = read_manifests("{base: &b {x: 1, y: 2}, own: {<<: *b, y: 3}, same: *b}").manifests

    assert manifest.document["own"] == {"x": 1, "y": 3}
    assert manifest.document["same"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("a: 1\nb: 2\na: 3", 't.yaml:3: has the key "a" twice; keep one of them'),
        ('{"a": 1, "a": 2}', 't.yaml: has the key "a" twice; keep one of them'),
        ("- a\n- b", 't.yaml:1: ["a", "b"] is not an object; write apiVersion, kind and so on'),
        (
            "kind: List\nitems: [5]",
            "t.yaml:2: 5 is not an object; write apiVersion, kind and so on",
        ),
        ("x: *nobody", 't.yaml:1: has no anchor "nobody"; define it with &nobody before'),
        ("x: &a [*a]", "t.yaml:1: contains itself; write it out"),
        ("[" * 100_000, "t.yaml:1: is nested too deeply; write it flatter"),
        ('{"a":' * 100_000, "t.yaml: is nested too deeply"),
    ],
    ids=["twice", "twice-json", "list", "item", "alias", "cycle", "deep", "deep-json"],
)
def test_text_that_is_no_document_is_told_with_its_place(text: str, trouble: str) -> None:
    assert [str(found) for found in read_manifests(text, "t.yaml").troubles] == [trouble]


def test_a_syntax_error_is_told_with_line_and_column() -> None:
    (trouble,) = read_manifests("kind: A\nspec: [1, 2\nmetadata: {}", "t.yaml").troubles

    assert (trouble.position.line, trouble.position.column > 0) == (3, True)
    assert "is not YAML" in str(trouble)


def test_a_mistake_in_one_document_does_not_hide_the_others() -> None:
    found = read_manifests("{a: 1, a: 2}\n---\nkind: B\n---\n{b: 1, b: 1}")

    assert len(found.troubles) == 2
    assert [m.document["kind"] for m in found.manifests] == ["B"]


def test_aliases_cannot_blow_up_a_small_text() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]

    (trouble,) = read_manifests("\n".join(lines)).troubles

    assert "is too large" in str(trouble)


def test_json_with_tabs_is_read_too() -> None:
    (manifest,) = read_manifests('{\n\t"kind": "A",\n\t"x": 1.0\n}').manifests

    assert manifest.document == {"kind": "A", "x": 1.0}
