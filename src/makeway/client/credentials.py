"""Who we are to a server: fixed words, files that are renewed, or a command that knows.

A credential is asked for before every request and costs nothing while it holds. A server that
refuses it (401) makes it be fetched anew, once per request.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from makeway.api.times import parse_time

FILE_HOLDS_S = 60.0  # a token file is read again after that; tokens overlap far longer
COMMAND_MAX_S = 60.0
EXEC_GROUP = "client.authentication.k8s.io"
EXEC_VERSIONS = (f"{EXEC_GROUP}/v1", f"{EXEC_GROUP}/v1beta1")
EXEC_INFO = "KUBERNETES_EXEC_INFO"  # the variable by which a command is told for whom it works

Clock = Callable[[], float]


class CredentialError(Exception):
    """There is none to be had; the text is for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    token: str = ""
    certificate: str = ""  # PEM, as is the key; empty: none is shown
    key: str = field(default="", repr=False)


class Source(Protocol):
    async def current(self) -> Credential:
        """What to show now."""

    def refuse(self, refused: Credential) -> bool:
        """The server would not have it; False if asking again will give no other."""


class Fixed:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refuse(self, refused: Credential) -> bool:
        return False


class TokenFile:
    """A token that somebody renews in a file, as the kubelet does for pods."""

    def __init__(self, path: Path, clock: Clock = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._held = Credential()
        self._until = float("-inf")

    async def current(self) -> Credential:
        now = self._clock()
        if now >= self._until:
            self._held, self._until = Credential(token=self._read()), now + FILE_HOLDS_S
        return self._held

    def _read(self) -> str:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialError(f"{self._path} can't be read: {error}") from None
        if not token:
            raise CredentialError(f"{self._path} is empty; it should hold a token")
        return token

    def refuse(self, refused: Credential) -> bool:
        self._until = float("-inf")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a kubeconfig names a program that gives credentials."""

    path: str  # of the field, for messages
    words: tuple[str, ...]
    variables: Mapping[str, str]
    api_version: str
    hint: str = ""  # where to get the program
    cluster: Mapping[str, Any] | None = None  # what it is told of the server; None: nothing


class CommandSource:
    """Asks a program, and keeps its answer until that expires. Many may wait, one asks."""

    def __init__(self, command: Command, clock: Clock = time.time) -> None:
        self._command, self._clock = command, clock
        self._held: Credential | None = None
        self._until = float("inf")
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._held is None or self._clock() >= self._until:
                self._held, self._until = self._understood(await self._output())
            return self._held

    def refuse(self, refused: Credential) -> bool:
        if self._held == refused:  # else another request has fetched a new one by now
            self._held = None
        return True

    async def _output(self) -> bytes:
        command = self._command
        name, path = command.words[0], command.path
        try:
            process = await asyncio.create_subprocess_exec(
                *command.words,
                env={**os.environ, **command.variables, EXEC_INFO: self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f"; {command.hint}" if command.hint else ""
            raise CredentialError(f"{path}.command: {name}: {error.strerror}{hint}") from None
        try:
            async with asyncio.timeout(COMMAND_MAX_S):
                output, _ = await process.communicate()
        except TimeoutError:
            raise CredentialError(
                f"{path}.command: {name} did not answer within {COMMAND_MAX_S:.0f} s"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise CredentialError(f"{path}.command: {name} ended with {process.returncode}")
        return output

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._command.cluster is not None:
            spec["cluster"] = self._command.cluster
        info = {"apiVersion": self._command.api_version, "kind": "ExecCredential", "spec": spec}
        return orjson.dumps(info).decode()

    def _understood(self, output: bytes) -> tuple[Credential, float]:
        """The credential, and until when it holds."""
        where = f"{self._command.path}.command: what {self._command.words[0]} printed"
        try:
            answer = orjson.loads(output)
            status = answer["status"]
            version = answer["apiVersion"]
            expires = status.get("expirationTimestamp")
            until = parse_time(expires) if expires else float("inf")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError):
            raise CredentialError(f"{where} is no ExecCredential with a status") from None
        if version != self._command.api_version:
            raise CredentialError(
                f"{where} is of {version}; the kubeconfig says {self._command.api_version}"
            )
        found = Credential(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or ""),
            key=str(status.get("clientKeyData") or ""),
        )
        if bool(found.certificate) != bool(found.key) or not (found.token or found.certificate):
            raise CredentialError(f"{where} has neither a token nor a certificate with its key")
        return found, until
