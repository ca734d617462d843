"""What the file given with `--config` says and Makeway does not do is told to whoever starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from makeway.cli.main import main

UNSUPPORTED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
webhook: {port: 9443}
resources: {deviceClassMappings: []}
featureGates: {PriorityBoost: true, PartialAdmission: false}
waitForPodsReady: {blockAdmission: true}
objectRetentionPolicies: {workloads: {afterFinished: 24h}}
"""
# Each ends for another reason once it has read the file.
COMMANDS = (
    ("up", "--nodes", "nowhere.yaml", "--data-dir", "data"),
    ("controller", "--kubeconfig", "nowhere"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=["up", "controller"])
def test_what_is_not_acted_on_is_told_at_the_start(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(UNSUPPORTED)

    code = main([*words, "--config", "config.yaml"])

    lines = capsys.readouterr().err.splitlines()
    told = [line.split(": ")[3] for line in lines if line.startswith("warning: ")]
    assert code == 2
    assert told == ["webhook", "resources.deviceClassMappings", "featureGates.PriorityBoost"]
    assert lines[0].startswith("warning: config.yaml:4: Configuration: webhook: ")


def test_one_that_starts_it_in_the_background_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(UNSUPPORTED + "manageJobs: true\n")

    code = main(["up", "--detach", "--data-dir", "data", "--config", "config.yaml"])

    assert code == 2
    assert "manageJobs: is not a known field" in capsys.readouterr().err
    assert not Path("data").exists()  # nothing was started
