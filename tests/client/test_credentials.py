"""Who we are to a server: from kubeconfigs, pods' files, and commands."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from makeway.client.credentials import (
    FILE_HOLDS_S,
    Command,
    CommandSource,
    Credential,
    CredentialError,
    TokenFile,
)
from makeway.client.kubeconfig import Access, KubeconfigError, access_in_cluster, read_kubeconfig

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(
    folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **more: Any
) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "lab", "cluster": {"server": "https://lab:6443", **(cluster or {})}},
            {"name": "staging", "cluster": {"server": "https://staging:6443"}},
        ],
        "users": [{"name": "me", "user": user}],
        "contexts": [
            {"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "team"}},
            {"name": "staging", "context": {"cluster": "staging", "user": "me"}},
        ],
        "current-context": "lab",
        **more,
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path


def shown(access: Access) -> Credential:
    """What a server would get to see."""
    assert access.source is not None
    return asyncio.run(access.source.current())


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_current_context_counts_unless_another_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "secret"})
    access = read_kubeconfig(path)
    assert (access.address, access.namespace, access.token) == (
        "https://lab:6443",
        "team",
        "secret",
    )
    assert read_kubeconfig(path, "staging").address == "https://staging:6443"


def test_certificates_come_from_files_or_from_the_text_itself(tmp_path: Path) -> None:
    (tmp_path / "me.crt").write_text("certificate")
    user = {"client-certificate": "me.crt", "client-key-data": encoded("key")}
    cluster = {"certificate-authority-data": encoded("ca"), "tls-server-name": "kube"}
    access = read_kubeconfig(kubeconfig(tmp_path, user, cluster))
    assert shown(access) == Credential(certificate="certificate", key="key")
    assert (access.ca, access.server_name) == ("ca", "kube")


def test_a_token_file_is_read_again_when_it_was_renewed(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "token"
    path.write_text("old\n")
    source = TokenFile(path, clock=lambda: now)
    assert asyncio.run(source.current()).token == "old"
    path.write_text("new\n")
    assert asyncio.run(source.current()).token == "old"
    now = FILE_HOLDS_S
    assert asyncio.run(source.current()).token == "new"


def test_a_token_that_is_refused_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    source = TokenFile(path, clock=lambda: 0.0)
    old = asyncio.run(source.current())
    path.write_text("new")
    assert source.refuse(old)
    assert asyncio.run(source.current()).token == "new"


def test_a_pod_finds_its_server(tmp_path: Path) -> None:
    for name, text in (("token", "secret"), ("ca.crt", "ca"), ("namespace", "makeway-system")):
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = access_in_cluster(environment, tmp_path)
    assert access is not None
    assert (access.address, access.namespace) == ("https://[fd00::1]:443", "makeway-system")
    assert shown(access).token == "secret"
    assert access_in_cluster({}, tmp_path) is None


# Commands


def script(folder: Path, status: dict[str, Any], api_version: str = V1) -> Path:
    """A program that answers, and counts how often it was asked."""
    answer = json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})
    path = folder / "who-am-i"
    path.write_text(
        "#!/bin/sh\n"
        f'echo "$KUBERNETES_EXEC_INFO" >> {folder}/asked\n'
        f'echo "$1 $WHERE" > {folder}/words\n'
        f"echo '{answer}'\n"
    )
    path.chmod(0o700)
    return path


def asked(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "asked").read_text().splitlines()]


def command(folder: Path, api_version: str = V1) -> Command:
    words = (str(folder / "who-am-i"), "--now")
    return Command(path="users[0].user.exec", words=words, variables={}, api_version=api_version)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_command_is_asked_for_a_token(tmp_path: Path, version: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    script(tmp_path, {"token": "fresh"}, api_version)
    exec_ = {
        "apiVersion": api_version,
        "command": "./who-am-i",
        "args": ["--now"],
        "env": [{"name": "WHERE", "value": "here"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    cluster = {"certificate-authority-data": encoded("ca")}
    access = read_kubeconfig(kubeconfig(tmp_path, {"exec": exec_}, cluster))
    assert shown(access).token == "fresh"
    assert (tmp_path / "words").read_text() == "--now here\n"
    (info,) = asked(tmp_path)
    assert info["apiVersion"] == api_version
    assert info["spec"] == {
        "interactive": False,
        "cluster": {"server": "https://lab:6443", "certificate-authority-data": encoded("ca")},
    }


def test_a_command_is_asked_again_when_its_answer_expires_or_is_refused(tmp_path: Path) -> None:
    script(tmp_path, {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"})
    now = 0.0
    source = CommandSource(command(tmp_path), clock=lambda: now)

    async def story() -> None:
        nonlocal now
        first, *_ = await asyncio.gather(*(source.current() for _ in range(5)))
        assert len(asked(tmp_path)) == 1
        assert source.refuse(first)
        await source.current()
        assert len(asked(tmp_path)) == 2
        now = 1_767_225_600.0
        await source.current()
        assert len(asked(tmp_path)) == 3

    asyncio.run(story())


def test_a_command_may_give_a_certificate(tmp_path: Path) -> None:
    script(tmp_path, {"clientCertificateData": "certificate", "clientKeyData": "key"})
    found = asyncio.run(CommandSource(command(tmp_path)).current())
    assert found == Credential(certificate="certificate", key="key")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\nexit 3\n", "ended with 3"),
        ("#!/bin/sh\necho hello\n", "is no ExecCredential with a status"),
        (f'#!/bin/sh\necho \'{{"apiVersion": "{V1}", "status": {{}}}}\'\n', "neither a token"),
        ('#!/bin/sh\necho \'{"apiVersion": "v2", "status": {"token": "t"}}\'\n', "is of v2"),
        ("#!/no/such/shell\n", "No such file"),
    ],
    ids=["fails", "prints no JSON", "gives nothing", "other version", "can't be started"],
)
def test_a_command_that_is_no_use_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "who-am-i"
    path.write_text(text)
    path.chmod(0o700)
    with pytest.raises(CredentialError, match=why) as caught:
        asyncio.run(CommandSource(command(tmp_path)).current())
    assert str(caught.value).startswith("users[0].user.exec.command: ")


# What is wrong with a kubeconfig


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"token": 7}, "users[0].user.token: write a text"),
        ({"client-certificate-data": "%"}, "users[0].user.client-certificate-data: this is not"),
        ({"client-key": "none"}, "users[0].user.client-key: {folder}/none can't be read"),
        ({"client-key-data": "a2V5"}, "users[0].user.client-key: a client certificate and its key"),
        ({"auth-provider": {"name": "oidc"}}, "users[0].user.auth-provider: Makeway can't do that"),
        ({"exec": {"command": "x"}}, "users[0].user.exec.apiVersion: ''; write client.auth"),
        ({"exec": {"apiVersion": V1}}, "users[0].user.exec.command: write the program"),
        (
            {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}},
            "users[0].user.exec.interactiveMode: Always: nobody is there",
        ),
        ({"exec": {"apiVersion": V1, "command": "x", "env": [1]}}, "users[0].user.exec.env[0]: "),
    ],
)
def test_what_is_wrong_is_said_with_its_path(
    tmp_path: Path, user: dict[str, Any], why: str
) -> None:
    path = kubeconfig(tmp_path, user)
    with pytest.raises(KubeconfigError) as caught:
        read_kubeconfig(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: {why.format(folder=tmp_path)}")
    assert "\n" not in text


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {})
    with pytest.raises(KubeconfigError, match="contexts: there is no context 'prod' in it"):
        read_kubeconfig(path, "prod")
