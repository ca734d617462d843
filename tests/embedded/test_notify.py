"""Who wants to know that a job is over is told once, and a receiver that hangs harms nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from makeway.api.kinds import PODS
from tests.harness.process import Up, running_on, wait_until

BOX = {"cpu": "8", "memory": "16Gi"}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("notify")
    with running_on(BOX, folder) as started:
        yield started


def tellers(up: Up) -> list[str]:
    """The pods that tell somebody."""
    labelled = (pod["metadata"] for pod in up.listed(PODS))
    return [m["name"] for m in labelled if "makeway.dev/tells-of" in (m.get("labels") or {})]


def test_a_command_is_told_once(up: Up) -> None:
    note = up.folder.parent / "note"
    command = f'echo "$MAKEWAY_JOB_ID $MAKEWAY_JOB_STATUS: $MAKEWAY_SUBJECT" >> {note}'
    up.makeway("submit", "--notify", command, "--wait", "--", "sh", "-c", "exit 3", code=3)

    wait_until(lambda: note.exists() and not tellers(up))

    assert note.read_text() == "1 failed: job 1 has failed\n"


def test_a_web_hook_gets_what_happened(up: Up) -> None:
    bodies: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        up.makeway("submit", "--name", "hooked", "--notify", url, "--wait", "--", "true")
        wait_until(lambda: bodies)
    finally:
        server.shutdown()
        server.server_close()

    assert (bodies[0]["name"], bodies[0]["status"]) == ("hooked", "succeeded")


def test_receivers_that_hang_take_no_place_from_jobs_and_are_two_at_most(up: Up) -> None:
    for _ in range(3):
        up.makeway("submit", "--notify", "sleep 300", "--wait", "--", "true")
    wait_until(lambda: len(tellers(up)) == 2)

    up.makeway("submit", "--cpu", "8", "--wait", "--", "true")

    assert len(tellers(up)) == 2
    deadlines = {pod["spec"].get("activeDeadlineSeconds") for pod in up.listed(PODS)} - {None}
    assert deadlines == {30}
