"""The files for Grafana and Prometheus speak of metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from makeway.api.manifests import read_manifests
from makeway.controller.metric_families import FAMILIES

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "makeway.json").read_text())
_FAMILIES = {family.name: family for family in FAMILIES}
_METRIC = re.compile(r"\b((?:kueue|makeway)_[a-z_]+)(?:\{([^}]*)\})?")
_KINDS = {"stat", "timeseries", "table", "row"}


def rules() -> list[dict[str, Any]]:
    (found,) = read_manifests((FOLDER / "alerts.yaml").read_text(), "alerts.yaml").manifests
    groups: Any = found.document["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


ALL = list(expressions())


@pytest.mark.parametrize(("where", "expression"), ALL, ids=[where for where, _ in ALL])
def test_every_metric_and_label_exists(where: str, expression: str) -> None:
    found = _METRIC.findall(expression)
    assert found, "an expression without a metric"
    for name, matchers in found:
        family = _FAMILIES.get(re.sub("_(bucket|sum|count)$", "", name))
        assert family is not None, name
        is_histogram = bool(family.buckets)
        assert is_histogram == name.endswith(("_bucket", "_sum", "_count")), name
        labels = {*family.labels, *(("le",) if name.endswith("_bucket") else ())}
        assert {m.split("=")[0].strip(" !~") for m in matchers.split(",") if m} <= labels, name
    known = {label for name, _ in found for label in _labels(name)}
    for grouped in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= known


def _labels(name: str) -> tuple[str, ...]:
    return (*_FAMILIES[re.sub("_(bucket|sum|count)$", "", name)].labels, "le")


def test_what_only_grows_is_seen_as_a_rate() -> None:
    for where, expression in ALL:
        for name, _ in _METRIC.findall(expression):
            if name.endswith(("_total", "_bucket")):
                inside = re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[", expression)
                assert inside, (where, name)


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["type"] for panel in panels} <= _KINDS
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another"
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert panel["datasource"]["uid"] == "${datasource}"
            assert [t["refId"] for t in panel["targets"]] == list("ABC")[: len(panel["targets"])]
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(DASHBOARD)))
    assert used == names


def test_every_alert_says_what_is_wrong() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) >= 6
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"].endswith((".", ")."))
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= {
            label for name, _ in _METRIC.findall(rule["expr"]) for label in _labels(name)
        }
