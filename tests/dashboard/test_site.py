"""What the dashboard answers to whom: own pages with a session, and nobody else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from makeway.api.kinds import JOBS
from makeway.client import Client
from makeway.client.transport import Call, InProcessTransport
from makeway.dashboard.board import Board
from makeway.dashboard.feed import Feed
from makeway.dashboard.files import Files
from makeway.dashboard.serving import serving
from makeway.dashboard.signing_in import Reader
from makeway.dashboard.site import STREAMS_OF_ONE, Site
from makeway.plane.picture import Picture
from makeway.server.messages import Request, Response

HOST = "127.0.0.1:7476"


class Clock:
    def __call__(self) -> float:
        return 1_700_000_000.0


class Api:
    """A server that notes what it is asked, by whom, and forbids some of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []  # reader, method, path
        self.forbids = ""  # this method

    def client_of(self, reader: Reader) -> Client:
        async def handle(call: Call) -> tuple[int, dict[str, str], bytes]:
            self.asked.append((reader.name, call.method, call.path))
            if call.method == self.forbids:
                why = {"kind": "Status", "message": "ada may not do that", "reason": "Forbidden"}
                return 403, {}, json.dumps(why).encode()
            return 200, {}, b'{"metadata": {}}'

        return Client(InProcessTransport(handle))


def site(api: Api | None = None) -> Site:
    return Site(b"k" * 32, Clock(), (api or Api()).client_of)


def request(
    method: str, path: str, body: Any = None, *, host: str = HOST, **headers: str
) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method=method,
        path=path,
        query={},
        headers={"host": host, **names},
        body=b"" if body is None else json.dumps(body).encode(),
    )


def send(
    to: Site, method: str, path: str, body: Any = None, *, host: str = HOST, **headers: str
) -> Response:
    return asyncio.run(to.handle(request(method, path, body, host=host, **headers)))


def signed_in(to: Site, reader: str = "ada", uid: int | None = 1001) -> str:
    code = to.invite(reader, uid)["code"]
    answer = send(to, "POST", "/api/session", makeway_code=code)
    assert isinstance(answer.body, bytes)
    return str(json.loads(answer.body)["session"])


def test_a_code_becomes_a_session_once() -> None:
    there = site()
    code = there.invite("ada", 1001)["code"]

    assert send(there, "POST", "/api/session", makeway_code=code).code == 200
    assert send(there, "POST", "/api/session", makeway_code=code).code == 401


def test_a_session_that_was_ended_is_none() -> None:
    there = site()
    first, other = signed_in(there), signed_in(there)

    assert send(there, "DELETE", "/api/session", makeway_session=first).code == 200
    assert send(there, "DELETE", "/api/session", makeway_session=first).code == 401
    assert send(there, "POST", "/api/action", {}, makeway_session=other).code == 400


@pytest.mark.parametrize("path", ["/api/stream", "/api/job", "/api/output", "/api/nothing"])
def test_nothing_is_told_without_a_session(path: str) -> None:
    assert send(site(), "GET", path).code == 401
    assert send(site(), "GET", path, makeway_session="abc.def").code == 401


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:7476", 200),
        ("localhost:9000", 200),  # forwarded by ssh -L
        ("[::1]:7476", 200),
        ("127.0.0.1", 200),
        ("evil.example:7476", 421),  # a name of somebody else that points here
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_only_names_of_the_loopback_address_are_answered(host: str, code: int) -> None:
    assert send(site(), "GET", "/", host=host).code == code


def test_pages_of_other_sites_can_do_nothing_even_with_a_session() -> None:
    api = Api()
    there = site(api)
    session = signed_in(there)
    action = {"key": "Job/default/train", "action": "cancel"}

    for origin in ("http://evil.example", "http://127.0.0.1:8000", "null"):
        answer = send(there, "POST", "/api/action", action, makeway_session=session, origin=origin)
        assert answer.code == 403
    assert api.asked == []
    own = f"http://{HOST}"
    assert (
        send(there, "POST", "/api/action", action, makeway_session=session, origin=own).code == 200
    )


def test_every_answer_has_a_strict_policy_and_no_cookie() -> None:
    there = site()
    for answer in (
        send(there, "GET", "/"),
        send(there, "GET", "/api/job"),
        send(there, "GET", "/x"),
    ):
        headers = dict(answer.headers)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Set-Cookie" not in headers
        assert "Access-Control-Allow-Origin" not in headers


def test_an_action_is_done_with_the_rights_of_its_reader() -> None:
    api = Api()
    there = site(api)
    session = signed_in(there, "grace")
    action = {"key": "Job/default/train", "workload": "job-train", "action": "cancel"}

    assert send(there, "POST", "/api/action", action, makeway_session=session).code == 200
    job = JOBS.path("default", "train")
    assert api.asked == [("grace", "GET", job), ("grace", "DELETE", job)]  # it is in no queue


def test_what_the_api_forbids_its_reader_is_told_in_its_words() -> None:
    api = Api()
    api.forbids = "PATCH"
    there = site(api)
    action = {"key": "Job/default/train", "workload": "job-train", "action": "hold"}

    answer = send(there, "POST", "/api/action", action, makeway_session=signed_in(there))

    assert answer.code == 403
    assert answer.body == b'{"message":"ada may not do that"}'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("no object", "write an object with key, workload, action, value"),
        ({"key": "Job/default/../x", "action": "hold"}, "'Job/default/../x' names no job"),
        ({"key": "Job/default/..", "action": "hold"}, "'Job/default/..' names no job"),
        ({"key": "Job/a/b", "action": "explode"}, "there are: hold, resume, cancel, priority"),
        ({"key": "Pod/a/b", "action": "priority", "value": "x"}, "only a Job has a class"),
        ({"key": "Pod/a/b", "action": "hold"}, "has no Workload"),
        ({"key": "Job/a/b", "workload": "../x", "action": "hold"}, "'../x' is no name"),
    ],
)
def test_an_action_that_makes_no_sense_is_refused(body: Any, why: str) -> None:
    api = Api()
    there = site(api)

    answer = send(there, "POST", "/api/action", body, makeway_session=signed_in(there))

    assert answer.code == 400
    assert isinstance(answer.body, bytes)
    assert why in json.loads(answer.body)["message"]
    assert api.asked == []


def test_pages_are_small_and_load_nothing_from_elsewhere() -> None:
    found = Files()
    names = {"page.html", "theme.css", "dashboard.css", "app.js", "icon.svg"}
    loaded = set(names)
    while names:  # what a page names, it loads
        file = found.find(names.pop())
        assert file is not None
        text = file.body.decode()
        more = set(re.findall(r'(?:from "\./|/assets/)([\w.-]+)"', text)) - loaded
        names |= more
        loaded |= more
        assert set(re.findall(r"https?://[^\"'\s)]+", text)) <= {"http://www.w3.org/2000/svg"}
    sizes = [len(file.body) for name in loaded if (file := found.find(name)) is not None]
    assert len(sizes) == len(loaded)
    assert sum(sizes) < 400_000


def test_a_page_that_is_known_is_not_sent_again() -> None:
    there = site()
    first = send(there, "GET", "/assets/app.js")
    tag = dict(first.headers)["ETag"]

    again = send(there, "GET", "/assets/app.js", if_none_match=tag)
    assert (again.code, again.body) == (304, b"")
    assert send(there, "GET", "/assets/../../pki/token").code == 404
    assert send(there, "GET", "/jobs/Job/default/train").body == send(there, "GET", "/").body


@pytest.mark.parametrize(
    ("uid", "last"), [(1001, 503), (None, 200)], ids=["of many accounts", "the only account"]
)
def test_a_reader_can_have_all_streams_only_where_nobody_else_could_read(
    uid: int | None, last: int
) -> None:
    there = site()
    shown = {"makeway_session": signed_in(there, uid=uid)}

    async def story() -> list[int]:
        there.follow(Feed(Board(Picture(), Clock()), Clock()))
        answers = list[Response]()
        for _ in range(STREAMS_OF_ONE + 1):
            answers.append(await there.handle(request("GET", "/api/stream", **shown)))
            if not isinstance(answers[-1].body, bytes):
                await anext(answers[-1].body)
        return [answer.code for answer in answers]

    assert asyncio.run(story()) == [200] * STREAMS_OF_ONE + [last]


def test_a_port_that_is_taken_is_replaced_unless_it_was_named() -> None:
    async def story() -> None:
        first, second, third = site(), site(), site()
        async with serving(first, 0, is_fixed=False):
            async with serving(second, first.port, is_fixed=False):
                assert second.port not in (0, first.port)
            with pytest.raises(OSError, match="in use"):
                async with serving(third, first.port, is_fixed=True):
                    pass

    asyncio.run(story())
