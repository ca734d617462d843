"""Who is behind a request where many share a server: by the socket, or by a token."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from makeway.api.configuration import AdmissionFairSharing, Configuration
from makeway.local_socket import Refused, ask_locally
from makeway.server import people, reception, tokens
from makeway.server.app import App
from makeway.server.door import NotSafe
from makeway.server.listen import Listener
from makeway.server.people import for_people
from tests.harness.people import ADA, BOB, EVE, GRACE, ROOT, Lab, entry, play

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def who(lab: Lab, caller: int | str, code: int = 201) -> str:
    answer = await lab.json(caller, "POST", WHO, {}, code=code)
    return str(answer["status"]["userInfo"]["username"] if code == 201 else answer["message"])


def test_what_people_used_lately_counts_unless_the_configuration_says_how() -> None:
    week = for_people(Configuration()).admission_fair_sharing
    own = AdmissionFairSharing(usage_half_life_time=60.0)

    assert week is not None
    assert week.usage_half_life_time == 7 * 24 * 3600
    assert for_people(Configuration(admission_fair_sharing=own)).admission_fair_sharing is own


def test_the_uid_at_the_other_end_says_who_it_is(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        assert await who(lab, ADA) == "ada"
        assert await who(lab, BOB) == "bob"
        assert "account eve is refused: it is locked" in await who(lab, EVE, 401)
        assert "uid 4711 has no account" in await who(lab, 4711, 401)
        assert await who(lab, "guessed", 401) == "Unauthorized"

    play(tmp_path, story)


def test_what_the_database_says_holds_for_a_minute(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        assert await who(lab, ADA) == "ada"
        lab.accounts.entries[ADA] = entry("ada", ADA, why_closed="it has expired")
        lab.now += people.KNOWN_FOR_S - 1
        assert await who(lab, ADA) == "ada"
        lab.now += 1
        assert "it has expired" in await who(lab, ADA, 401)

    play(tmp_path, story)


def test_a_database_that_fails_lets_nobody_in(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        lab.accounts.of_uid = _fails  # type: ignore[method-assign]
        assert "does not answer" in await who(lab, ADA, 503)

    play(tmp_path, story)


def _fails(uid: int) -> None:
    raise FileNotFoundError(2, "No such file")


def test_a_token_for_an_hour_is_who_asked_for_it(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        made = await lab.json(ADA, "POST", "/tokens", {})
        token = made["token"]
        assert made["expires"] == "2023-11-14T23:13:20Z"
        assert await who(lab, token) == "ada"
        why = await lab.json(token, "POST", "/tokens", {}, code=403)
        assert "through the Unix socket only" in why["message"]
        lab.now += 3599
        assert await who(lab, token) == "ada"
        lab.now += 1
        assert await who(lab, token, 401) == "Unauthorized"

    play(tmp_path, story)


def test_a_named_token_is_kept_as_a_digest_and_can_be_revoked(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        asked = {"name": "ci", "ttlSeconds": 30 * 86400}
        token = (await lab.json(ADA, "POST", "/tokens", asked))["token"]
        await lab.json(ADA, "POST", "/tokens", asked, code=409)
        assert await who(lab, token) == "ada"
        kept = b"".join(record.body for record in lab.store.scan(tokens.KIND))
        assert b'"account":"ada"' in kept
        assert token.encode() not in kept
        (row,) = (await lab.json(ADA, "GET", "/tokens"))["items"]
        assert (row["name"], row["made"], row["lastUsed"]) == (
            *("ci", "2023-11-14T22:13:20Z"),
            "2023-11-14T22:13:20Z",
        )
        assert (await lab.json(BOB, "GET", "/tokens"))["items"] == []
        await lab.json(BOB, "GET", "/tokens?all=true", code=403)
        assert len((await lab.json(GRACE, "GET", "/tokens?all=true"))["items"]) == 1
        await lab.json(BOB, "DELETE", "/tokens/ci", code=404)
        await lab.json(BOB, "DELETE", "/tokens/ci?account=ada", code=403)
        await lab.json(GRACE, "DELETE", "/tokens/ci?account=ada")
        assert await who(lab, token, 401) == "Unauthorized"
        assert lab.store.scan(tokens.KIND) == []

    play(tmp_path, story)


def test_a_token_outlives_a_restart_but_not_its_account(tmp_path: Path) -> None:
    secret = ""

    async def first(lab: Lab) -> None:
        nonlocal secret
        asked = {"name": "ci", "ttlSeconds": 86400}
        secret = (await lab.json(ADA, "POST", "/tokens", asked))["token"]

    async def second(lab: Lab) -> None:
        assert await who(lab, secret) == "ada"
        lab.now += 60
        lab.accounts.entries[ADA] = entry("carol", ADA)  # the uid has gone to somebody else
        assert "no longer the account ada" in await who(lab, secret, 401)
        lab.now += 60
        del lab.accounts.entries[ADA]
        assert "has no account" in await who(lab, secret, 401)

    play(tmp_path, first)
    play(tmp_path, second)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"name": "CI", "ttlSeconds": 60}, "small letters"),
        ({"name": "ci", "ttlSeconds": 0}, "ttlSeconds"),
        ({"name": "ci", "ttlSeconds": 400 * 86400}, "ttlSeconds"),
        ({"name": "ci"}, "ttlSeconds"),
        ([], "not an object"),
    ],
)
def test_odd_tokens_are_refused(tmp_path: Path, asked: object, why: str) -> None:
    async def story(lab: Lab) -> None:
        assert why in (await lab.json(ADA, "POST", "/tokens", asked, code=400))["message"]

    play(tmp_path, story)


def test_an_account_has_so_many_tokens_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LENT_MAX", 2)
    monkeypatch.setattr(tokens, "NAMED_MAX", 1)

    async def story(lab: Lab) -> None:
        lent = [(await lab.json(ADA, "POST", "/tokens", {}))["token"] for _ in range(3)]
        bobs = (await lab.json(BOB, "POST", "/tokens", {}))["token"]
        assert [await lab_code(lab, t) for t in (*lent, bobs)] == [401, 201, 201, 201]
        await lab.json(ADA, "POST", "/tokens", {"name": "a", "ttlSeconds": 60})
        await lab.json(ADA, "POST", "/tokens", {"name": "b", "ttlSeconds": 60}, code=403)
        await lab.json(ADA, "DELETE", "/tokens")
        assert [await lab_code(lab, t) for t in (*lent, bobs)] == [401, 401, 401, 201]

    play(tmp_path, story)


async def lab_code(lab: Lab, caller: int | str) -> int:
    return (await lab.send(caller, "POST", WHO, {})).code


def test_revoking_a_token_ends_what_was_opened_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reception, "STREAM_CHECKED_EVERY_S", 0.01)

    async def story(lab: Lab) -> None:
        secret = (await lab.json(ADA, "POST", "/tokens", {}))["token"]
        url = "/apis/batch/v1/namespaces/ada/jobs?watch=true"
        watch = await lab.send(secret, "GET", url)
        assert watch.code == 200
        assert not isinstance(watch.body, bytes)
        pieces = aiter(watch.body)
        assert await anext(pieces) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(
                asyncio.shield(waiting := asyncio.ensure_future(anext(pieces))), 0.1
            )
        await lab.json(ADA, "DELETE", "/tokens")
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(waiting, 60)

    play(tmp_path, story)


# The socket itself


async def listening(app: App, path: Path) -> Listener:
    listener = Listener(
        *(app.handle, app.is_authenticated),
        host="127.0.0.1",
        port=0,
        tls=None,
        local=path,
        is_for_all=True,
    )
    await listener.start()
    return listener


def test_the_socket_tells_who_calls_and_is_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    path.write_text("left behind")

    async def story(lab: Lab) -> None:
        lab.accounts.entries[os.getuid()] = entry("tester", os.getuid())
        listener = await listening(lab.app, path)
        try:
            assert path.stat().st_mode & 0o777 == 0o666
            answer = json.loads(await asyncio.to_thread(ask_locally, path, "POST", WHO, {}))
            assert answer["status"]["userInfo"]["username"] == "tester"
            lab.now += 60
            lab.accounts.entries[os.getuid()] = entry("tester", os.getuid(), why_closed="locked")
            with pytest.raises(Refused, match="account tester is refused: locked"):
                await asyncio.to_thread(ask_locally, path, "POST", WHO, {})
        finally:
            await listener.stop()

    play(tmp_path, story)


def test_a_folder_that_others_can_write_is_no_place_for_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    async def story(lab: Lab) -> None:
        with pytest.raises(NotSafe, match="can be written by others"):
            await listening(lab.app, tmp_path / "api.sock")

    play(tmp_path, story)
    tmp_path.chmod(0o700)


def test_nobody_can_fill_the_door_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.server.door.EACH_MIN", 3)
    monkeypatch.setattr("makeway.server.door._connections_max", lambda: 10)
    path = tmp_path / "api.sock"

    async def story(lab: Lab) -> None:
        listener = await listening(lab.app, path)
        opened = []
        try:
            for _ in range(4):
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(path))
                connection.settimeout(5)
                opened.append(connection)
            assert await asyncio.to_thread(opened[3].recv, 1) == b""
        finally:
            for connection in opened:
                connection.close()
            await listener.stop()

    play(tmp_path, story)


# What is written down, and how much one may ask


def test_writes_and_looks_at_what_is_private_are_written_down(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "GET", "/apis/batch/v1/namespaces/ada/jobs")
        await lab.json(ADA, "POST", "/tokens", {"name": "ci", "ttlSeconds": 60})
        queue = {"metadata": {"generateName": "q-"}, "spec": {"clusterQueue": "all"}}
        url = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ada/localqueues"
        made = await lab.json(GRACE, "POST", url, queue)
        await lab.json(BOB, "DELETE", f"{url}/{made['metadata']['name']}", code=403)
        await lab.send(BOB, "GET", "/api/v1/namespaces/ada/secrets/key")
        await lab.send(ADA, "GET", "/api/v1/namespaces/ada/pods/x/log")
        await lab.send(EVE, "POST", url, queue)
        await lab.json(BOB, "GET", "/audit", code=403)
        answer = await lab.send(GRACE, "GET", "/audit?lines=5")
        assert isinstance(answer.body, bytes)
        told = [json.loads(line) for line in answer.body.decode().splitlines()]
        name = made["metadata"]["name"]
        assert [(t["account"], t["verb"], t["object"], t["code"]) for t in told] == [
            ("ada", "post", "/tokens", 201),
            ("grace", "create", f"localqueues.kueue.x-k8s.io ada/{name}", 201),
            ("bob", "delete", f"localqueues.kueue.x-k8s.io ada/{name}", 403),
            ("bob", "get", "secrets ada/key", 403),
            ("ada", "get", "pods/log ada/x", 404),
        ]
        assert told[0]["time"] == "2023-11-14T22:13:20Z"
        assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600

    play(tmp_path, story)


def test_one_account_cannot_ask_for_all(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        codes = [(await lab.send(ADA, "GET", "/api")).code for _ in range(25)]
        assert codes == [200] * 20 + [429] * 5
        assert (await lab.send(BOB, "GET", "/api")).code == 200
        assert {(await lab.send(ROOT, "GET", "/api")).code for _ in range(25)} == {200}
        lab.now += 1
        codes = [(await lab.send(ADA, "GET", "/api")).code for _ in range(3)]
        assert codes == [200, 200, 429]

    play(tmp_path, story, people={"requests_per_s": 2.0})


def test_who_is_let_look_sees_everything_but_secrets(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "POST", "/grants", {"account": "nobody"}, code=404)
        jobs = "/apis/batch/v1/namespaces/ada/jobs"
        assert (await lab.send(BOB, "GET", jobs)).code == 403
        await lab.json(ADA, "POST", "/grants", {"account": "bob"})
        await lab.json(ADA, "POST", "/grants", {"account": "bob"})
        assert (await lab.json(ADA, "GET", "/grants"))["items"] == ["bob"]
        assert (await lab.send(BOB, "GET", jobs)).code == 200
        assert (await lab.send(BOB, "POST", jobs, {})).code == 403
        assert (await lab.send(BOB, "GET", "/api/v1/namespaces/ada/secrets")).code == 403
        await lab.json(BOB, "DELETE", "/grants/bob", code=404)
        await lab.json(ADA, "DELETE", "/grants/bob")
        assert (await lab.send(BOB, "GET", jobs)).code == 403


def test_a_preview_is_for_who_may_create_and_a_comparison_for_admins(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        asked = "/apis/batch/v1/namespaces/{}/jobs?{}"
        why = await lab.json(
            ADA, "POST", asked.format("bob", "dryRun=All&preview=true"), {}, code=403
        )
        assert "is forbidden" in why["message"]
        why = await lab.json(ADA, "POST", asked.format("ada", "preview=true"), {}, code=400)
        assert why["message"] == "preview: goes with dryRun=All"
        assert (
            "forbidden"
            in (await lab.json(ADA, "POST", "/diff", {"items": []}, code=403))["message"]
        )
        await lab.json(GRACE, "POST", "/diff", {"items": []}, code=400)  # nobody schedules here

    play(tmp_path, story)
