"""`makeway install` and `makeway uninstall` as they print; on a server: tests/kube."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import make_deploy

from makeway.cli.main import main
from makeway.deploy.installation import NAME, USER
from tests.harness.cli import Capsys
from tests.prerequisites import program

ROOT = Path(__file__).parents[2]
Document = dict[str, Any]


def printed(capsys: Capsys, *words: str) -> tuple[list[Document], str]:
    assert main(words) == 0
    out, err = capsys.readouterr()
    return documents_in(out), err


def documents_in(text: str) -> list[Document]:
    """In C where that is to be had: there is much to read."""
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def kinds(documents: list[Document]) -> list[str]:
    return [document["kind"] for document in documents]


def named(documents: list[Document], kind: str) -> Document:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


@pytest.mark.parametrize("path", make_deploy.files(), ids=lambda path: path.name)
def test_what_lies_in_deploy_is_fresh(path: Path) -> None:
    assert path.read_text() == make_deploy.files()[path], "run `make docs`"


def test_kustomize_builds_what_install_prints(capsys: Capsys) -> None:
    kubectl = program("kubectl")
    documents, _ = printed(capsys, "install")

    words = [kubectl, "kustomize", str(ROOT / "deploy")]
    built = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def in_order(found: list[Document]) -> list[Document]:
        return sorted(found, key=lambda d: (d["kind"], d["metadata"]["name"]))

    assert in_order(documents_in(built)) == in_order(documents)


def test_the_namespace_and_the_kinds_come_before_what_needs_them(capsys: Capsys) -> None:
    documents, _ = printed(capsys, "install")

    order = kinds(documents)
    assert order[:9] == ["Namespace", *["CustomResourceDefinition"] * 8]
    assert order.index("ServiceAccount") < order.index("ClusterRoleBinding")
    assert order[-1] == "Deployment"


def test_an_older_kubernetes_gets_the_policies_it_knows_and_a_word_of_warning(
    capsys: Capsys,
) -> None:
    documents, warnings = printed(capsys, "install", "--kube-version", "v1.35.2")
    assert "MutatingAdmissionPolicy" not in kinds(documents)
    assert "ValidatingAdmissionPolicy" in kinds(documents)
    assert "before the controller suspends it" in warnings

    documents, warnings = printed(capsys, "install", "--kube-version", "1.29")
    assert "ValidatingAdmissionPolicy" not in kinds(documents)
    assert "users can start queued Jobs and pods by hand" in warnings


def test_everything_follows_the_namespace(capsys: Capsys) -> None:
    documents, _ = printed(capsys, "install", "--namespace", "queues", "--image", "r/m:1")

    places = {document["metadata"].get("namespace", "queues") for document in documents}
    assert places == {"queues"}
    assert "makeway-system" not in yaml.safe_dump_all(documents)
    pod = named(documents, "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "r/m:1"
    guards = [d["spec"] for d in documents if d["kind"] == "ValidatingAdmissionPolicy"]
    of_releases = [guard for guard in guards if "Forbidden" in str(guard["validations"])]
    assert len(of_releases) == 2
    for guard in of_releases:
        account = "system:serviceaccount:queues:makeway-controller"
        assert account in guard["validations"][0]["expression"]


def test_a_configuration_travels_with_it(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")

    documents, _ = printed(capsys, "install", "--config", str(path))

    assert named(documents, "ConfigMap")["data"] == {"configuration.yaml": path.read_text()}
    container = named(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "--config=/etc/makeway/configuration.yaml" in container["args"]
    assert container["volumeMounts"][0]["mountPath"] == "/etc/makeway"


def test_a_wrong_configuration_is_not_shipped(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: lab}\n")

    assert main(["install", "--config", str(path)]) == 2
    assert "write one object of kind Configuration" in capsys.readouterr().err


def test_the_command_of_the_pod_is_one_that_makeway_understands(capsys: Capsys) -> None:
    from makeway.cli.main import build_parser

    documents, _ = printed(capsys, "install")
    container = named(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]

    parsed = build_parser(("controller",)).parse_args(container["args"])

    assert parsed.lease_namespace == "makeway-system"
    (port,) = container["ports"]
    assert parsed.health_address == f"0.0.0.0:{port['containerPort']}"
    assert parsed.metrics_address == "127.0.0.1:8080"


def rules_of(documents: list[Document]) -> str:
    (role,) = [d for d in documents if (d["kind"], d["metadata"]["name"]) == ("ClusterRole", NAME)]
    return yaml.safe_dump(role["rules"])


def test_metrics_are_told_to_other_pods_only_if_asked_for_and_to_whom_the_policy_names(
    capsys: Capsys,
) -> None:
    documents, _ = printed(capsys, "install")
    assert "Service" not in kinds(documents)
    policy = named(documents, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == named(documents, "Deployment")["spec"]["selector"]
    assert policy["ingress"] == [{"ports": [{"port": "health", "protocol": "TCP"}]}]

    documents, _ = printed(capsys, "install", "--expose-metrics")
    assert named(documents, "Service")["spec"]["ports"][0]["targetPort"] == "metrics"
    _, metrics = named(documents, "NetworkPolicy")["spec"]["ingress"]
    (who,) = metrics["from"]
    assert who["namespaceSelector"]["matchLabels"] == {"makeway.dev/metrics": "allowed"}
    container = named(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "--metrics-address=0.0.0.0:8080" in container["args"]


def test_rights_for_placing_are_given_only_where_pods_are_placed(capsys: Capsys) -> None:
    documents, _ = printed(capsys, "install")
    for right in ("pods/binding", "pods/eviction", "nodes", "podgroups"):
        assert right in rules_of(documents)

    documents, _ = printed(capsys, "install", "--no-placing")
    for right in ("pods/binding", "pods/eviction", "nodes", "podgroups", "gangs"):
        assert right not in rules_of(documents)
    assert "pods/status" in rules_of(documents)  # queued pods are told of their end
    container = named(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "--no-placing" in container["args"]


def test_an_image_by_its_tag_is_warned_of(capsys: Capsys) -> None:
    _, warnings = printed(capsys, "install", "--image", "r/makeway:1")
    assert "name it by its digest" in warnings

    digest = f"r/makeway@sha256:{'0' * 64}"
    documents, warnings = printed(capsys, "install", "--image", digest)
    assert warnings == ""
    container = named(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == digest


def test_the_image_runs_as_the_user_that_the_pod_names() -> None:
    assert f"USER {USER}:{USER}\n" in (ROOT / "Containerfile").read_text()


def test_uninstalling_begins_with_the_policies_and_leaves_the_kinds(capsys: Capsys) -> None:
    documents, warnings = printed(capsys, "uninstall")

    order = kinds(documents)
    assert [kind for kind in order[:20] if "AdmissionPolicy" not in kind] == []
    assert order[20] == "Deployment"
    assert "CustomResourceDefinition" not in order
    assert "Namespace" not in order
    assert "finalizer" in warnings
    documents, warnings = printed(capsys, "uninstall", "--crds")
    assert kinds(documents)[-8:] == ["CustomResourceDefinition"] * 8
    assert "all queues" in warnings


def test_all_that_is_installed_is_uninstalled(capsys: Capsys) -> None:
    def names(documents: list[Document]) -> set[tuple[str, str]]:
        return {(d["kind"], d["metadata"]["name"]) for d in documents if d["kind"] != "Namespace"}

    installed, _ = printed(capsys, "install")
    removed, _ = printed(capsys, "uninstall", "--crds")

    assert names(removed) - names(installed) == {
        ("Lease", "makeway-controller"),
        ("ConfigMap", "makeway-controller"),
        ("Service", "makeway-metrics"),
    }
    assert names(installed) <= names(removed)


def test_an_installed_wheel_has_the_kinds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pattern,) = settings["tool"]["setuptools"]["package-data"]["makeway.deploy"]

    assert len(list((ROOT / "src" / "makeway" / "deploy").glob(pattern))) == 8


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_another_context_of_the_kubeconfig_may_be_named(
    command: str, tmp_path: Path, capsys: Capsys
) -> None:
    contexts = [{"name": "here", "context": {"cluster": "c"}}]
    server = {"server": "http://127.0.0.1:1"}
    clusters = [{"name": "c", "cluster": server}]
    config = {"contexts": contexts, "clusters": clusters, "current-context": "gone"}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    words = (command, "--apply", "--kubeconfig", str(tmp_path / "config"))

    assert main(words) == 2
    assert "gone" in capsys.readouterr().err
    assert main((*words, "--context", "here")) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err
