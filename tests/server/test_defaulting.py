"""What the server fills in, and that it stays filled in."""

from pathlib import Path
from typing import Any

import pytest

from makeway.api.configuration import Configuration
from makeway.api.labels import ADMISSION_GATE, MANAGED, QUEUE_NAME
from makeway.api.quantity import QuantityError, canonical
from tests.harness.documents import job, pod
from tests.server.harness import JOBS, MERGE, PODS, Document, Server, play

QUANTITIES = (
    (1, "1"),
    ("0", "0"),
    ("-0.5", "-500m"),
    ("0.1", "100m"),
    ("1500m", "1500m"),
    ("2000m", "2"),
    ("1000", "1k"),
    ("1500", "1500"),
    ("1024Mi", "1Gi"),
    ("1025Mi", "1025Mi"),
    ("0.5Gi", "512Mi"),
    ("1e3", "1e3"),
    ("1E", "1E"),
)


@pytest.mark.parametrize(("written", "stored"), QUANTITIES)
def test_quantities_are_written_in_one_way(written: object, stored: str) -> None:
    assert canonical(written) == stored
    assert canonical(stored) == stored


def test_a_quantity_that_is_none_has_no_canonical_form() -> None:
    with pytest.raises(QuantityError):
        canonical("1 core")


def test_what_was_filled_in_may_be_left_out_of_an_update(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, job(suspend=True))
        bare = job(suspend=True)
        bare["spec"] |= {"selector": made["spec"]["selector"], "completions": 1}
        bare["spec"]["template"]["metadata"] = made["spec"]["template"]["metadata"]
        assert await server.json("PUT", f"{JOBS}/train", bare) == made

    play(tmp_path, story)


def test_an_image_decides_when_it_is_pulled(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for number, (image, policy) in enumerate(
            (
                ("python", "Always"),
                ("python:latest", "Always"),
                ("python:3.11", "IfNotPresent"),
                ("example.com:5000/python", "Always"),
                ("python@sha256:0", "IfNotPresent"),
            )
        ):
            wanted = pod(f"p{number}", containers=[{"name": "main", "image": image}])
            made = await server.json("POST", PODS, wanted)
            assert made["spec"]["containers"][0]["imagePullPolicy"] == policy, image

    play(tmp_path, story)


def test_a_template_may_be_set_only_while_no_pod_is_left(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job(suspend=True))
        url = f"{JOBS}/train"
        spot = {"spec": {"template": {"spec": {"nodeSelector": {"type": "spot"}}}}}
        running = {"status": {"startTime": "2023-11-14T22:13:20Z", "active": 1}}
        await server.json("PATCH", f"{url}/status", running, content_type=MERGE)
        await server.json("PATCH", url, spot, content_type=MERGE, code=422)
        suspended = {"type": "Suspended", "status": "True"}
        stopped = {"status": {"active": 0, "conditions": [suspended]}}
        await server.json("PATCH", f"{url}/status", stopped, content_type=MERGE)
        await server.json("PATCH", url, spot, content_type=MERGE)

    play(tmp_path, story)


def test_where_each_index_has_a_limit_the_job_has_none(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        indexed: Document = {"completionMode": "Indexed", "completions": 2, "suspend": True}
        made = await server.json("POST", JOBS, job(backoffLimitPerIndex=1, **indexed))
        assert made["spec"]["backoffLimit"] == 2_147_483_647

    play(tmp_path, story)


def test_a_queued_pod_is_held_back_and_nobody_else_may_release_it(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        held = await server.json("POST", PODS, queued("solo"))
        assert held["metadata"]["labels"][MANAGED] == "true"
        assert held["metadata"]["finalizers"] == [MANAGED]
        assert held["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]
        assert held["status"]["conditions"][0]["reason"] == "SchedulingGated"

        free = {"spec": {"schedulingGates": None}}
        await server.json("PATCH", f"{PODS}/solo", free, MERGE, code=403)
        await server.json("POST", PODS, queued("bound", nodeName="box"), code=422)

    play(tmp_path, story)


@pytest.mark.parametrize("finalizers", ["x", [{}], {"a": 1}])
def test_a_malformed_pod_that_names_a_queue_is_refused_with_a_word(
    tmp_path: Path, finalizers: object
) -> None:
    async def story(server: Server) -> None:
        wrong = queued("solo")
        wrong["metadata"]["finalizers"] = finalizers
        response = await server.send("POST", PODS, wrong)
        assert 400 <= response.code < 500

    play(tmp_path, story)


def queued(name: str, **spec: Any) -> Document:
    document = pod(name, **spec)
    document["metadata"]["labels"] = {QUEUE_NAME: "main"}
    return document


def test_where_all_jobs_are_managed_nobody_starts_one_by_hand(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        created = await server.json("POST", JOBS, job())
        assert created["spec"]["suspend"] is True

        start = {"spec": {"suspend": False}}
        answer = await server.json("PATCH", f"{JOBS}/train", start, content_type=MERGE, code=403)
        assert "released by its queue only" in answer["message"]

    play(tmp_path, story, configuration=Configuration(manage_jobs_without_queue_name=True))
