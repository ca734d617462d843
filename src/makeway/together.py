"""Several works at once, as long as none of them has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def until_one_ends(*works: Awaitable[object]) -> None:
    """Run all until one ends; the others are cancelled, and its failure is ours."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
