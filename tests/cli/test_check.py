"""`makeway check` finds every error and says where it is."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from makeway.cli.main import main

FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
"""
BAD_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: vision
spec:
  queueingStrategy: Random
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: spot
      resources:
      - name: cpu
        nominalQuota: plenty
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_good_file_is_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "good.yaml").write_text(FLAVOR)

    assert check(capsys, "good.yaml") == (0, "1 object, 0 errors, 0 warnings\n", "")


def test_every_error_has_file_line_path_value_and_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "queues.yaml").write_text(f"{FLAVOR}---\n{BAD_QUEUE}")

    code, out, _ = check(capsys, "queues.yaml")

    assert code == 1
    strategy, quota, summary = out.splitlines()
    assert strategy.startswith(
        'error: queues.yaml:10: ClusterQueue/vision: spec.queueingStrategy: "Random" '
    )
    assert "StrictFIFO or BestEffortFIFO" in strategy
    assert quota.startswith("error: queues.yaml:17: ClusterQueue/vision: ")
    assert 'nominalQuota: "plenty" is not a quantity; ' in quota
    assert summary == "2 objects, 2 errors, 0 warnings"


def test_what_is_accepted_but_not_acted_on_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "flavor.yaml").write_text(f"{FLAVOR}spec: {{topologyName: racks}}\n")

    code, out, _ = check(capsys, "flavor.yaml")

    assert code == 0
    assert out.startswith("warning: flavor.yaml:4: ResourceFlavor/spot: spec.topologyName: ")
    assert "topology-aware scheduling" in out


def test_rules_between_files_are_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, parent in (("a", "b"), ("b", "a")):
        (folder / f"{name}.yaml").write_text(
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\n"
            f"metadata: {{name: {name}}}\nspec: {{parentName: {parent}}}\n"
        )

    code, out, _ = check(capsys, ".")

    assert code == 1
    assert "error: a.yaml:4: Cohort/a: spec.parentName: " in out
    assert "error: b.yaml:4: Cohort/b: spec.parentName: " in out


def test_text_that_is_no_yaml_is_an_error_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.yaml").write_text("kind: [ClusterQueue\nmetadata: {}\n")

    code, out, _ = check(capsys, "broken.yaml")

    assert code == 1
    assert out.startswith("error: broken.yaml:2: ")


def test_json_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "queues.yaml").write_text(BAD_QUEUE)

    code, out, _ = check(capsys, "-o", "json", "queues.yaml")

    report = json.loads(out)
    assert code == 1
    assert report["objects"] == 1
    assert report["errors"][0] | {"problem": "", "hint": ""} == {
        "file": "queues.yaml",
        "line": 6,
        "object": "ClusterQueue/vision",
        "path": "spec.queueingStrategy",
        "value": "Random",
        "problem": "",
        "hint": "",
    }


def test_standard_input_is_a_file_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD_QUEUE.encode())))

    code, out, _ = check(capsys, "-")

    assert code == 1
    assert out.startswith("error: <stdin>:6: ClusterQueue/vision: ")


@pytest.mark.parametrize(
    ("argument", "trouble"),
    [
        ("nowhere.yaml", "makeway: nowhere.yaml: no such file or directory\n"),
        ("empty", "makeway: empty: no .yaml, .yml, .json files in this folder\n"),
        ("latin.yaml", "makeway: latin.yaml: not text in UTF-8 (byte 6)\n"),
    ],
)
def test_what_cannot_be_read_is_told_beside_the_rest(
    argument: str, trouble: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.yaml").write_text(FLAVOR)
    (folder / "empty").mkdir()
    (folder / "latin.yaml").write_bytes("kind: Ä".encode("latin-1"))

    code, out, err = check(capsys, argument, "good.yaml")

    assert (code, out, err) == (2, "1 object, 0 errors, 0 warnings\n", trouble)
    assert check(capsys, argument) == (2, "", trouble)


def test_hidden_files_of_a_folder_are_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".cache", "queues"):
        (folder / name).mkdir()
        (folder / name / "flavor.yaml").write_text(FLAVOR)
    (folder / ".secret.yaml").write_text("not: ours\n")

    assert check(capsys, ".") == (0, "1 object, 0 errors, 0 warnings\n", "")


OTHERS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
"""


def test_kinds_that_other_programs_read_are_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "all.yaml").write_text(OTHERS)

    assert check(capsys, "all.yaml") == (
        0,
        "3 objects, 0 errors, 0 warnings; passed over: 2 (Deployment, Ingress)\n",
        "",
    )
    code, out, _ = check(capsys, "--strict", "all.yaml")
    assert code == 1
    assert 'kind: "Deployment" is not a kind that Makeway knows' in out
    code, out, _ = check(capsys, "-o", "json", "all.yaml")
    assert (code, json.loads(out)["passedOver"]) == (0, ["Deployment", "Ingress"])


def test_a_kind_of_ours_that_is_misspelt_is_not_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "typo.yaml").write_text(OTHERS.replace("ResourceFlavor", "ResourceFlavour"))

    code, out, _ = check(capsys, "typo.yaml")

    assert code == 1
    assert "did you mean ResourceFlavor?" in out


CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    metadata: {labels: {kueue.x-k8s.io/queue-name: team}}
    spec:
      parallelism: -1
      template:
        spec:
          restartPolicy: Never
          resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
          containers: [{name: main, image: busybox}]
"""


def test_the_jobs_of_a_cron_job_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cron.yaml").write_text(CRON_JOB)
    code, out, _ = check(capsys, "cron.yaml")
    assert code == 1
    place = "error: cron.yaml:10: CronJob/nightly: spec.jobTemplate.spec.parallelism: "
    assert out.splitlines()[0].startswith(place)

    (folder / "cron.yaml").write_text(CRON_JOB.replace("-1", "1"))
    code, out, _ = check(capsys, "--strict", "cron.yaml")

    assert code == 0
    place = "spec.jobTemplate.spec.template.spec.resourceClaims: "
    assert out.startswith(f"warning: cron.yaml:14: CronJob/nightly: {place}")
    assert "claims of devices" in out
