"""The control plane itself, and the files that it is given."""

import asyncio

import pytest
from tools.make_crds import FOLDER as CRDS
from tools.make_crds import files

from makeway.api.kinds import Resource
from makeway.client import Client
from makeway.client.client import Document
from tests.harness.documents import job
from tests.kube.comparison import PAGE, documented
from tests.kube.plane import Plane


def test_the_crds_are_those_of_the_views() -> None:
    stale = [name for name, text in files().items() if (CRDS / name).read_text() != text]
    assert not stale, f"{stale}: run `make docs`"
    assert {file.name for file in CRDS.glob("*.yaml")} == set(files())


def test_the_differences_are_documented() -> None:
    page = PAGE.read_text()
    assert page == documented(page), "run python -m tests.kube document"


@pytest.mark.kube
def test_a_real_control_plane_runs_jobs(plane: Plane) -> None:
    async def story() -> None:
        client = Client(plane.access.transport())
        try:
            jobs = await client.resource("batch/v1", "Job")
            pods = await client.resource("v1", "Pod")
            await client.create(jobs, job("train"), namespace="default")
            (pod,) = await _until(client, pods)
            done: Document = {"status": {"phase": "Succeeded"}}
            name = pod["metadata"]["name"]
            await client.patch(pods, name, "default", patch=done, subresource="status")
            while not _is_complete(await client.get(jobs, "train", "default")):
                await asyncio.sleep(0.05)
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(story(), 60))


async def _until(client: Client, pods: Resource) -> list[Document]:
    """The pods of the job, once there are some."""
    while True:
        found = await client.list(pods, "default", label_selector="job-name=train")
        if found.items:
            return found.items
        await asyncio.sleep(0.05)


def _is_complete(job: Document) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)
