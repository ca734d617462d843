"""Services: defaults, and what is refused."""

from typing import Any

from tests.harness.documents import Document
from tests.kube.stories.registry import story
from tests.kube.story_client import StoryClient


def _service(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec},
    }


@story
async def services_are_completed(t: StoryClient) -> None:
    url = t.core("services")
    parts = ("ports", "type", "sessionAffinity", "internalTrafficPolicy", "ipFamilyPolicy")
    show = (*(f"spec.{part}" for part in parts), "spec.ipFamilies", "status")
    named = [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81}]
    await t.call("a service", "POST", url, _service("s"), show=show)
    await t.call("two ports", "POST", url, _service("two", ports=named), show=show)
    headless = _service("headless", clusterIP="None")
    await t.call("headless", "POST", url, headless, show=(*show, "spec.clusterIP"))
    elsewhere = _service("e", type="ExternalName", externalName="example.com", ports=None)
    await t.call("elsewhere", "POST", url, elsewhere, show=(*show, "spec.clusterIP"))


_BAD: dict[str, Document] = {
    "no ports": {"ports": []},
    "port 0": {"ports": [{"port": 0}]},
    "a port too high": {"ports": [{"port": 65536}]},
    "a target too high": {"ports": [{"port": 80, "targetPort": 65536}]},
    "two ports without names": {"ports": [{"port": 80}, {"port": 81}]},
    "a name twice": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]},
    "a type": {"type": "Magic"},
    "no external name": {"type": "ExternalName"},
    "no address": {"clusterIP": "here"},
}


@story
async def bad_services_are_refused(t: StoryClient) -> None:
    for number, (step, spec) in enumerate(_BAD.items()):
        document = _service(f"s{number}", **spec)
        await t.call(step, "POST", t.core("services"), document, show=("metadata.name",))
    await t.call("a bad name", "POST", t.core("services"), _service("a.b"))
