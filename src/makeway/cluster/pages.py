"""The dashboard of a controller: the pages of `makeway up`, read with the cluster's own rights.

It listens inside of the pod only, for `makeway dashboard`, which comes by port-forward and shows
the token of who runs it. Nothing is done for a reader with the controller's own account.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from makeway.api.configuration import Configuration
from makeway.client import ApiError, NotFound
from makeway.client.kubeconfig import Access
from makeway.cluster.controller import Controller
from makeway.controller.previews import NotPreviewed, Previews
from makeway.dashboard.bearers import Bearers
from makeway.dashboard.past import Past
from makeway.dashboard.serving import KEY_BYTES, serving
from makeway.dashboard.site import Site
from makeway.forecast.forecaster import Forecaster
from makeway.forecast.live import READ

Clock = Callable[[], float]


class Leading:
    """The scheduler, while this replica leads."""

    def __init__(self, controller: Controller, forecaster: Forecaster) -> None:
        self._controller, self._forecaster = controller, forecaster

    def explain(self, namespace: str, name: str) -> Mapping[str, Any]:
        visibility = self._controller.visibility
        if visibility is None:
            raise _stands_by()
        found = visibility.explain(namespace, name)
        if found is None:
            raise NotFound(404, "NotFound", f"{namespace}/{name} is not known to the scheduler")
        return found

    def forecast(self, namespace: str, name: str) -> Mapping[str, Any]:
        if self._controller.visibility is None:
            raise _stands_by()
        return self._forecaster.one(namespace, name)

    def preview(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._would_be(lambda previews: previews.preview(document))

    def difference(self, documents: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        return self._would_be(lambda previews: previews.difference(documents))

    def _would_be(self, ask: Callable[[Previews], Mapping[str, Any]]) -> Mapping[str, Any]:
        previews = self._controller.previews
        if previews is None:
            raise _stands_by()
        try:
            return ask(previews)
        except NotPreviewed as error:
            raise ApiError(400, "BadRequest", str(error)) from None


def _stands_by() -> ApiError:
    return ApiError(503, "ServiceUnavailable", "this replica stands by; another one leads")


@contextlib.asynccontextmanager
async def pages(
    controller: Controller,
    access: Access,
    configuration: Configuration,
    journal: Path | None,
    port: int | None,
    default_port: int,
    clock: Clock,
) -> AsyncIterator[Site]:
    """Serve them while the context lasts; without `port`, on the default one or a free one."""
    transport = replace(access, token="", source=None).transport()
    forecaster = Forecaster(
        lambda: map(orjson.dumps, controller.documents(READ)),
        clock,
        configuration,
        lambda: controller.state,
        journal=journal,
    )
    bearers = Bearers(transport, Leading(controller, forecaster), clock)
    past = None if journal is None else Past(journal, clock)
    # Nobody gets a session here: `makeway dashboard` has those of its pages.
    key = secrets.token_bytes(KEY_BYTES)
    site = Site(key, clock, bearers.client, past, keeps_cancelled=False, bearers=bearers)
    wanted = default_port if port is None else port
    try:
        async with serving(site, wanted, is_fixed=port is not None):
            controller.site = site
            yield site
    finally:
        await forecaster.stop()
        if past is not None:
            past.close()
        await transport.close()
