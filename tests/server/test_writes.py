"""A write is converted, completed, decoded and checked, each exactly once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.api import codec, versions
from tests.harness.documents import cluster_queue, job
from tests.server.harness import APPLY, JOBS, MERGE, QUEUES, Document, Server, play

ONCE = {"convert": 1, "default": 1, "decode": 1, "check": 1}
OLD_QUEUES = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step was taken since it was cleared."""
    taken: Counter[str] = Counter()

    def count(step: str, *places: str) -> None:
        for place in places:
            module, _, name = place.rpartition(".")
            original = getattr(__import__(module, fromlist=[name]), name)
            monkeypatch.setattr(place, counted(step, original))

    def counted(step: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            taken[step] += 1
            return original(*given, **named)

        return call

    count("convert", "makeway.api.versions.to_hub")
    count("default", "makeway.server.defaulting.with_defaults", "makeway.api.intake.with_defaults")
    count("decode", "makeway.api.codec._decode_known", "makeway.server.objects.decode_change")
    count("check", "makeway.api.intake.validate", "makeway.server.objects.validate")
    return taken


def test_the_steps_are_counted_where_they_are_taken(steps: Counter[str]) -> None:
    codec.decode(job())

    assert steps == {"convert": 1, "decode": 1}
    assert versions.to_hub(job()).document == job()


def test_a_new_object_takes_each_step_once(tmp_path: Path, steps: Counter[str]) -> None:
    async def story(server: Server) -> None:
        steps.clear()
        await server.json("POST", JOBS, job(), code=201)
        assert steps == ONCE

        steps.clear()
        older = {**cluster_queue(), "apiVersion": "kueue.x-k8s.io/v1beta1"}
        await server.json("POST", OLD_QUEUES, older, code=201)
        assert steps == ONCE

        steps.clear()
        url = f"{JOBS}/applied?fieldManager=me"
        await server.json("PATCH", url, job("applied"), content_type=APPLY, code=201)
        assert steps == ONCE

    play(tmp_path, story)


async def change(server: Server, url: str, body: Document, content_type: str = MERGE) -> None:
    await server.json("PATCH", url, body, content_type=content_type, code=200)


def test_a_change_takes_each_step_once(tmp_path: Path, steps: Counter[str]) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())
        await server.json("POST", QUEUES, cluster_queue())
        steps.clear()
        await change(server, f"{JOBS}/train", {"spec": {"parallelism": 2}})
        assert steps == ONCE

        steps.clear()
        await change(server, f"{OLD_QUEUES}/vision", {"spec": {"stopPolicy": "Hold"}})
        assert steps == ONCE

        steps.clear()
        applied = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3}}
        await change(server, f"{JOBS}/train?fieldManager=me&force=true", applied, APPLY)
        assert steps == ONCE

    play(tmp_path, story)


def test_what_was_there_is_decoded_only_for_kinds_with_rules_about_changes(
    tmp_path: Path, steps: Counter[str]
) -> None:
    async def story(server: Server) -> None:
        local_queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
        queue = {"metadata": {"name": "here"}, "spec": {"clusterQueue": "vision"}}
        await server.json("POST", local_queues, queue)
        steps.clear()
        await change(server, f"{local_queues}/here", {"spec": {"stopPolicy": "Hold"}})
        assert steps == {**ONCE, "decode": 2}

    play(tmp_path, story)


def test_a_status_is_not_completed(tmp_path: Path, steps: Counter[str]) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())
        steps.clear()
        await change(server, f"{JOBS}/train/status", {"status": {"active": 1}})
        assert steps == {step: 1 for step in ONCE if step != "default"}

    play(tmp_path, story)
