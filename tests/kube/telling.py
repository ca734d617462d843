"""Telling all stories to one server."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from makeway.client.kubeconfig import Access
from tests.kube.stories import STORIES
from tests.kube.story_client import StoryClient
from tests.server.harness import Kubectl

STORY_TIMEOUT_S = 120.0


async def _tell(name: str, access: Access, kubectl: Kubectl | None) -> list[dict[str, Any]]:
    client = StoryClient(access, name.replace("_", "-")[:63].rstrip("-"), kubectl)
    try:
        namespace = {"metadata": {"name": client.namespace}}
        await client.quiet("POST", "/api/v1/namespaces", namespace)
        async with asyncio.timeout(STORY_TIMEOUT_S):
            await STORIES[name].tell(client)
    finally:
        await client.close()
    return client.transcript


def tell(name: str, access: Access, kubeconfig: Path, home: Path) -> list[dict[str, Any]]:
    """The transcript of one story; a server can be told each of them once."""
    kubectl = Kubectl(kubeconfig, home) if shutil.which("kubectl") else None
    return asyncio.run(_tell(name, access, kubectl))
