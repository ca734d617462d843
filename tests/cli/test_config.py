"""The file that --config names."""

from pathlib import Path

import pytest

from makeway.cli.command import UsageError
from makeway.cli.up import read_configuration

CONFIG_MAP = """
kind: ConfigMap
metadata:
  name: kueue-manager-config
  namespace: kueue-system
data:
  controller_manager_config.yaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta1
    kind: Configuration
    requeueStrategy:
      priorityPreemption: UseEvictionTimestamp
      podsReadyTimeout: UseCreationTimestamp
"""


def test_it_may_come_in_a_config_map_as_kueue_ships_it(tmp_path: Path) -> None:
    path = tmp_path / "manager.yaml"
    path.write_text(CONFIG_MAP)
    found = read_configuration(tmp_path, path)
    assert found.requeue_after_preemption == "UseEvictionTimestamp"
    assert found.requeue_after_pods_ready_timeout == "UseCreationTimestamp"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("UseEvictionTimestamp", "Sometimes", '"Sometimes" is not a value of this field'),
        ("kind: Configuration", "kind: Cohort", "has no kind Cohort"),
        ("data:", "binaryData:", "data: write one file, the Configuration"),
    ],
)
def test_what_is_wrong_inside_is_told(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "manager.yaml"
    path.write_text(CONFIG_MAP.replace(old, new))
    with pytest.raises(UsageError) as refused:
        read_configuration(tmp_path, path)
    assert complaint in str(refused.value)
    assert str(path) in str(refused.value)
