"""What the server fills in, and that it stays filled in."""

from pathlib import Path

import pytest

from makeway.api.quantity import QuantityError, canonical
from tests.server.harness import JOBS, MERGE, PODS, Server, job, play, pod

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
