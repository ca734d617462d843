"""Pods: defaults, priority, binding, eviction, what may change."""

import asyncio
import time
from typing import Any

from tests.harness.documents import PRIORITY_CLASSES, Document, container, pod
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, POLL_S, WAIT_S, StoryClient


@story
async def pods_are_completed(t: StoryClient) -> None:
    limits = {"limits": {"cpu": "1", "memory": "1Gi"}}
    full = pod(
        "full",
        containers=[
            container(
                resources=limits,
                ports=[{"containerPort": 80}],
                env=[{"name": "A", "value": "b"}],
                readinessProbe={"exec": {"command": ["true"]}},
                imagePullPolicy="Never",
            )
        ],
        initContainers=[{"name": "first", "image": "busybox:1.0"}],
        volumes=[{"name": "scratch"}, {"name": "host", "hostPath": {"path": "/tmp"}}],
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        nodeSelector={"type": "spot"},
    )
    await t.call("guaranteed only with init containers too", "POST", t.pods(), full)
    requests = container(resources={"requests": {"cpu": "100m"}, "limits": {"cpu": 1}})
    show = ("spec.containers.0.resources", "status.qosClass")
    await t.call("burstable", "POST", t.pods(), pod("b", containers=[requests]), show=show)
    gpus = container(resources={"limits": {"nvidia.com/gpu": 1}})
    await t.call("gpus", "POST", t.pods(), pod("g", containers=[gpus]), show=show)
    odd = container(resources={"requests": {"cpu": "1500m", "memory": "1024Mi"}})
    await t.call("odd quantities", "POST", t.pods(), pod("o", containers=[odd]), show=show)
    gated = pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await t.call("gated", "POST", t.pods(), gated, show=("spec.schedulingGates", "status"))
    named = pod("account", serviceAccountName="robot")
    show = ("spec.serviceAccountName", "spec.serviceAccount")
    await t.call("an account", "POST", t.pods(), named, show=show)


def _asking(**resources: Any) -> Document:
    return {"containers": [container(resources=resources)]}


_BAD_PODS: dict[str, Document] = {
    "no containers": {"containers": []},
    "no image": {"containers": [{"name": "main"}]},
    "a name twice": {"containers": [container(), container()]},
    "a bad name": {"containers": [container(name="A_b")]},
    "a negative request": _asking(requests={"cpu": "-1"}),
    "a request above its limit": _asking(requests={"cpu": 2}, limits={"cpu": 1}),
    "no quantity": _asking(requests={"cpu": "1 core"}),
    "half a gpu": _asking(requests={"nvidia.com/gpu": "500m"}),
    "a gpu without a limit": _asking(requests={"nvidia.com/gpu": 1}),
    "a restart policy": {"restartPolicy": "Sometimes"},
    "a toleration": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "a gate twice": {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
    "gated and bound": {"schedulingGates": [{"name": "example.com/a"}], "nodeName": "n"},
}


@story
async def bad_pods_are_refused(t: StoryClient) -> None:
    await t.call("no spec", "POST", t.pods(), {"metadata": {"name": "p"}})
    for number, (step, spec) in enumerate(_BAD_PODS.items()):
        await t.call(step, "POST", t.pods(), pod(f"p{number}", **spec), show=("metadata.name",))


async def _noticed(t: StoryClient, priority: int, **spec: Any) -> None:
    """Wait until new pods get this priority: a real server looks classes up in a late copy."""
    wanted, url = pod("probe", **spec), f"{t.pods()}?dryRun=All"
    deadline = time.monotonic() + WAIT_S
    while True:
        code, _, made = await t.send("POST", url, wanted)
        if code == 201 and made["spec"]["priority"] == priority:
            return
        assert time.monotonic() < deadline, made
        await asyncio.sleep(POLL_S)


@story
async def pods_get_the_priority_of_their_class(t: StoryClient) -> None:
    high = {"metadata": {"name": "pods-high"}, "value": 1000, "preemptionPolicy": "Never"}
    await t.quiet("POST", PRIORITY_CLASSES, high)
    await _noticed(t, 1000, priorityClassName="pods-high")
    show = ("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
    named = pod("named", priorityClassName="pods-high")
    await t.call("by name", "POST", t.pods(), named, show=show)
    await t.call("none", "POST", t.pods(), pod("none"), show=show)
    missing = pod("missing", priorityClassName="nope")
    await t.call("no such class", "POST", t.pods(), missing)
    number = pod("number", priority=7)
    await t.call("a number without a class", "POST", t.pods(), number, show=show)
    both = pod("both", priorityClassName="pods-high", priority=7)
    await t.call("a number beside a class", "POST", t.pods(), both, show=show)
    system = pod("system", priorityClassName="system-node-critical")
    await t.call("a class of the system's", "POST", t.pods(), system, show=show)
    usual = {"metadata": {"name": "pods-usual"}, "value": 5, "globalDefault": True}
    await t.call("a default class", "POST", PRIORITY_CLASSES, usual)
    await _noticed(t, 5)
    await t.call("by default", "POST", t.pods(), pod("default"), show=show)
    second = {"metadata": {"name": "pods-second"}, "value": 6, "globalDefault": True}
    await t.call("a second default", "POST", PRIORITY_CLASSES, second)
    await t.call("delete the default", "DELETE", f"{PRIORITY_CLASSES}/pods-usual")
    await _noticed(t, 0)  # or the pods of the next story would get it


@story
async def a_pod_is_bound_once(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("p"))
    url = f"{t.pods('p')}/binding"
    named = {"metadata": {"name": "p"}}
    await t.call("no node", "POST", url, {**named, "target": {}})
    await t.call("another kind", "POST", url, {**named, "target": {"kind": "Pod", "name": "n"}})
    await t.call("no name", "POST", url, {"target": {"kind": "Node", "name": "n"}})
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    other = {"name": "p", "uid": "11111111-1111-1111-1111-111111111111"}
    await t.call("another pod of that name", "POST", url, {**binding, "metadata": other})
    await t.call("bind", "POST", url, binding)
    await t.call("it has its node", "GET", t.pods("p"), show=("spec.nodeName", "status"))
    await t.call("again", "POST", url, binding)
    none = {**binding, "metadata": {"name": "none"}}
    await t.call("none", "POST", f"{t.pods('none')}/binding", none)
    await t.quiet("POST", t.pods(), pod("gated", schedulingGates=[{"name": "example.com/a"}]))
    gated = {**binding, "metadata": {"name": "gated"}}
    await t.call("a gated one", "POST", f"{t.pods('gated')}/binding", gated)
    await t.quiet("POST", t.pods(), pod("late", {"finalizers": ["example.com/hold"]}))
    await t.quiet("DELETE", t.pods("late"))
    late = {**binding, "metadata": {"name": "late"}}
    await t.call("a leaving one", "POST", f"{t.pods('late')}/binding", late)
    labels = {"metadata": {"name": "q", "labels": {"a": "b"}}, "target": {"name": "n"}}
    await t.quiet("POST", t.pods(), pod("q"))
    await t.call("get a binding", "GET", f"{t.pods('q')}/binding")
    await t.call("with labels", "POST", f"{t.pods('q')}/binding", labels)
    await t.call("what it has", "GET", t.pods("q"), show=("spec.nodeName", "metadata.labels"))


@story
async def what_may_change_in_a_pod(t: StoryClient) -> None:
    gates = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    await t.quiet("POST", t.pods(), pod("p", schedulingGates=gates, nodeSelector={"a": "1"}))
    url = t.pods("p")
    for step, spec in (
        ("a node name", {"nodeName": "n"}),
        ("an image", {"containers": [container(image="other")]}),
        ("a command", {"containers": [container(command=["x"])]}),
        ("a restart policy", {"restartPolicy": "Never"}),
        ("a priority", {"priority": 5}),
        ("a deadline", {"activeDeadlineSeconds": 60}),
        ("a later deadline", {"activeDeadlineSeconds": 90}),
        ("one more toleration", {"tolerations": [{"key": "x", "operator": "Exists"}]}),
        ("a toleration less", {"tolerations": []}),
        ("one more gate", {"schedulingGates": [*gates, {"name": "example.com/c"}]}),
        ("more of a selector while gated", {"nodeSelector": {"a": "1", "b": "2"}}),
        ("less of a selector while gated", {"nodeSelector": {"a": None}}),
        ("a gate less", {"schedulingGates": gates[:1]}),
        ("no gates", {"schedulingGates": None}),
        ("more of a selector without gates", {"nodeSelector": {"c": "3"}}),
        ("resources", {"containers": [container(resources={"limits": {"cpu": "1"}})]}),
    ):
        show = ("metadata.generation", *(f"spec.{name}" for name in spec))
        await t.call(step, "PATCH", url, {"spec": spec}, MERGE, show=show)


@story
async def eviction_obeys_disruption_budgets(t: StoryClient) -> None:
    budgets = t.apis("policy/v1", "poddisruptionbudgets")
    await t.quiet("POST", t.pods(), pod("free"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}
    url = f"{t.pods('free')}/eviction"
    await t.call("no budget", "POST", url, {**eviction, "metadata": {"name": "free"}})
    await t.call("it is gone", "GET", t.pods("free"))
    await t.quiet("POST", t.pods(), pod("p", {"labels": {"app": "x"}}))
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await t.quiet("PATCH", f"{t.pods('p')}/status", {"status": running}, MERGE)
    selector = {"matchLabels": {"app": "x"}}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    await t.call("a budget", "POST", budgets, budget)
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    await t.quiet("PATCH", f"{budgets}/b/status", {"status": status}, MERGE)
    url, wanted = f"{t.pods('p')}/eviction", {**eviction, "metadata": {"name": "p"}}
    await t.call("too few left", "POST", url, wanted)
    await t.call("another name", "POST", url, {**eviction, "metadata": {"name": "q"}})
    status["disruptionsAllowed"] = 1
    await t.quiet("PATCH", f"{budgets}/b/status", {"status": status}, MERGE)
    dry = {**wanted, "deleteOptions": {"dryRun": ["All"]}}
    await t.call("a dry run", "POST", url, dry)
    await t.call("enough left", "POST", url, wanted)
    await t.call("that one is gone", "GET", t.pods("p"))
    show = ("status.disruptionsAllowed",)
    await t.call("the budget is used up", "GET", f"{budgets}/b", show=show)
    none = {**eviction, "metadata": {"name": "none"}}
    await t.call("none", "POST", f"{t.pods('none')}/eviction", none)


@story
async def bad_budgets_are_refused(t: StoryClient) -> None:
    budgets = t.apis("policy/v1", "poddisruptionbudgets")
    selector = {"matchLabels": {"app": "x"}}
    both = {"minAvailable": 1, "maxUnavailable": 1, "selector": selector}
    await t.call("both numbers", "POST", budgets, {"metadata": {"name": "b"}, "spec": both})
    percent = {"minAvailable": "ten%", "selector": selector}
    await t.call("no percentage", "POST", budgets, {"metadata": {"name": "b"}, "spec": percent})
    negative = {"minAvailable": -1, "selector": selector}
    await t.call(
        "a negative number", "POST", budgets, {"metadata": {"name": "b"}, "spec": negative}
    )
    good = {"maxUnavailable": "50%", "selector": selector}
    await t.call("a percentage", "POST", budgets, {"metadata": {"name": "b"}, "spec": good})
    change = {"spec": {"maxUnavailable": 2}}
    show = ("metadata.generation", "spec")
    await t.call("a change", "PATCH", f"{budgets}/b", change, MERGE, show=show)
