"""The shared scenarios, as `make conformance` plays them."""

import json

from tests.conformance.placement import run_scenario
from tests.prerequisites import shared_path


def test_all_shared_scenarios_come_out_as_expected() -> None:
    lines = shared_path("placement/scenarios.jsonl").read_text().splitlines()
    scenarios = [json.loads(line) for line in lines if line.strip()]
    found = {scenario["id"]: run_scenario(scenario) for scenario in scenarios}
    assert {name: differences for name, differences in found.items() if differences} == {}
    assert len(found) == len(scenarios)
