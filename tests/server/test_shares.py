"""Members of shares find their queue when they come, and a closed one when they have left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.people import ADA, BOB, EVE, GRACE, Lab, entry, play

QUEUEING = "/apis/kueue.x-k8s.io/v1beta2"


async def share(lab: Lab, name: str, whose: str, order: int = 0) -> None:
    selector = {"matchLabels": {f"share.makeway.dev/{name}": "member"}}
    marks = {"makeway.dev/share-of": whose, "makeway.dev/share-order": str(order)}
    metadata = {"name": name, "labels": {"makeway.dev/share": "true"}, "annotations": marks}
    made = {"metadata": metadata, "spec": {"namespaceSelector": selector}}
    await lab.json(GRACE, "POST", f"{QUEUEING}/clusterqueues", made)


async def queues(lab: Lab, who: int, namespace: str) -> dict[str, Any]:
    """Local queues of a namespace, with how they are stopped."""
    found = await lab.json(who, "GET", f"{QUEUEING}/namespaces/{namespace}/localqueues")
    return {q["metadata"]["name"]: q["spec"].get("stopPolicy", "None") for q in found["items"]}


def test_a_member_gets_a_queue_and_a_place_in_the_selector(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await share(lab, "vision", "group:vision")
        await share(lab, "bob", "account:bob")
        assert await queues(lab, ADA, "ada") == {"vision": "None"}
        assert await queues(lab, BOB, "bob") == {"bob": "None"}
        found = await lab.json(ADA, "GET", "/api/v1/namespaces/ada")
        assert found["metadata"]["labels"]["share.makeway.dev/vision"] == "member"
        await share(lab, "all", "group:bob")
        assert await queues(lab, BOB, "bob") == {"bob": "None", "all": "None"}

    play(tmp_path, story)


def test_who_comes_first_with_a_job_finds_the_automatic_queue(tmp_path: Path) -> None:
    """Nobody keeps that queue here who could make the way to it a moment later."""

    async def story(lab: Lab) -> None:
        assert await queues(lab, BOB, "bob") == {}
        automatic = {"name": "default", "labels": {"makeway.dev/automatic": "true"}}
        await lab.json(GRACE, "POST", f"{QUEUEING}/clusterqueues", {"metadata": automatic})
        assert await queues(lab, ADA, "ada") == {"default": "None"}
        held = {"spec": {"stopPolicy": "Hold"}}  # others own what it had
        url = f"{QUEUEING}/clusterqueues/default"
        await lab.json(GRACE, "PATCH", url, held, "application/merge-patch+json")
        lab.accounts.entries[EVE] = entry("eve", EVE)
        assert await queues(lab, EVE, "eve") == {}

    play(tmp_path, story)


def test_who_leaves_finds_it_closed_and_who_returns_open(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await share(lab, "vision", "group:vision")
        assert await queues(lab, ADA, "ada") == {"vision": "None"}
        lab.accounts.entries[ADA] = entry("ada", ADA)
        lab.now += 60
        assert await queues(lab, ADA, "ada") == {"vision": "Hold"}
        lab.accounts.entries[ADA] = entry("ada", ADA, "vision")
        lab.now += 60
        assert await queues(lab, ADA, "ada") == {"vision": "None"}

    play(tmp_path, story)


def test_who_names_no_queue_stands_in_that_of_the_first_share(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await share(lab, "zebra", "account:ada", 0)
        await share(lab, "vision", "group:vision", 1)
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
        job = {"metadata": {"name": "x"}, "spec": {"template": template}}
        made = await lab.json(ADA, "POST", "/apis/batch/v1/namespaces/ada/jobs", job)
        assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "zebra"

    play(tmp_path, story)


def test_nobody_can_make_himself_a_member(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await share(lab, "speech", "group:speech")
        assert await queues(lab, ADA, "ada") == {}
        queue = {"metadata": {"name": "speech"}, "spec": {"clusterQueue": "speech"}}
        url = f"{QUEUEING}/namespaces/ada/localqueues"
        await lab.json(ADA, "POST", url, queue, code=403)
        patch = {"metadata": {"labels": {"share.makeway.dev/speech": "member"}}}
        merge = "application/merge-patch+json"
        await lab.json(ADA, "PATCH", "/api/v1/namespaces/ada", patch, merge, code=403)

    play(tmp_path, story)
