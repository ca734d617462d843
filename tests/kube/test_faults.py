"""`makeway controller` on a real API server that dies, falls silent, forgets, or has two leaders.

What is claimed of every story, whatever breaks in it, is read off etcd's history: every job was
admitted once and ran once, and at no moment was more in use than quota allows.
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from makeway.api.kinds import WORKLOADS
from tests.kube.breaking import KEEPS_HISTORY, Flow, flow
from tests.kube.cluster import Cluster, Process, true_conditions
from tests.kube.plane import Plane, require_assets
from tests.kube.proxy import Fate, Proxy, Request, proxy_to

pytestmark = pytest.mark.kube

Document = dict[str, Any]
JOBS = 60
KILLS = 6
ALONE = "--no-leader-election"
MANY, IN_FLIGHT = 10_000, 32  # workloads that are created, and at once
FINISH_MAX_S = 120.0
TAKEOVER_MAX_S = 40.0  # the lease is 15 s; the rest is for a machine that is busy
SILENCE_MAX_S = 5.0  # instead of minutes, to keep the stories short


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    require_assets()
    running = Plane(tmp_path_factory.mktemp("breakable"), flags=KEEPS_HISTORY)
    yield running
    running.stop()


def play(
    plane: Plane, folder: Path, story: Callable[[Flow], Awaitable[None]], quota: int = 6
) -> None:
    async def run() -> None:
        async with flow(plane, folder, quota) as jobs:
            await story(jobs)
            jobs.check()

    asyncio.run(run())


@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_all_jobs_run_once_though_the_server_is_killed(
    breakable: Plane, tmp_path: Path, program: str
) -> None:
    async def story(jobs: Flow) -> None:
        with jobs.lab.controller():
            await jobs.submit(JOBS)
            await jobs.until_finished(10, FINISH_MAX_S)
            breakable.kill(program)
            await asyncio.to_thread(breakable.start_again, program)
            await jobs.until_all_finished(FINISH_MAX_S)

    play(breakable, tmp_path, story)


def test_all_jobs_run_once_though_the_controller_is_killed_again_and_again(
    breakable: Plane, tmp_path: Path
) -> None:
    chance = random.Random(1)

    async def story(jobs: Flow) -> None:
        await jobs.submit(JOBS)
        for _ in range(KILLS):
            with jobs.lab.controller(ALONE) as doomed:
                await until(lambda doomed=doomed: doomed.leads, "it works")  # type: ignore[misc]
                await asyncio.sleep(chance.uniform(0.0, 1.5))
        with jobs.lab.controller(ALONE):
            await jobs.until_all_finished(FINISH_MAX_S)

    play(breakable, tmp_path, story)


def test_all_jobs_run_once_though_connections_are_cut_again_and_again(
    breakable: Plane, tmp_path: Path
) -> None:
    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            with jobs.lab.controller(kubeconfig=proxy.kubeconfig_in(tmp_path)):
                await jobs.submit(JOBS)
                for finished in range(0, JOBS, 5):
                    await jobs.until_finished(finished, FINISH_MAX_S)
                    proxy.sever()
                await jobs.until_all_finished(FINISH_MAX_S)

    play(breakable, tmp_path, story)


@pytest.mark.parametrize("watches_only", [True, False], ids=["watches", "all connections"])
def test_a_connection_that_falls_silent_without_being_closed_is_given_up(
    breakable: Plane, tmp_path: Path, watches_only: bool
) -> None:
    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            kubeconfig = proxy.kubeconfig_in(tmp_path)
            with jobs.lab.controller(kubeconfig=kubeconfig, silence_max_s=SILENCE_MAX_S):
                await jobs.submit(JOBS)
                await jobs.until_finished(10, FINISH_MAX_S)
                proxy.darken(watches_only=watches_only)
                await jobs.until_all_finished(FINISH_MAX_S)

    play(breakable, tmp_path, story)


def test_what_happened_while_history_was_thrown_away_is_listed_anew(
    breakable: Plane, tmp_path: Path
) -> None:
    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            kubeconfig = proxy.kubeconfig_in(tmp_path)
            with jobs.lab.controller(ALONE, kubeconfig=kubeconfig):
                await jobs.submit(20)
                await jobs.until_finished(5, FINISH_MAX_S)
                listed = len(proxy.lists_of(WORKLOADS))
                proxy.rule = lambda request: Fate.LOSE_REQUEST if request.is_watch else Fate.PASS
                proxy.sever()
                await jobs.submit(20)
                jobs.etcd_history.compact()
                breakable.kill("kube-apiserver")
                await asyncio.to_thread(breakable.start_again, "kube-apiserver")
                assert len(proxy.lists_of(WORKLOADS)) == listed

                proxy.rule = lambda request: Fate.PASS
                proxy.sever()
                await jobs.until_all_finished(FINISH_MAX_S)
                assert len(proxy.lists_of(WORKLOADS)) == listed + 1

    play(breakable, tmp_path, story)


def test_what_a_leader_had_decided_and_not_written_when_it_died_is_decided_by_the_next(
    breakable: Plane, tmp_path: Path
) -> None:
    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            proxy.rule = lose_admissions(heard_by_server=3)
            with jobs.lab.controller(kubeconfig=proxy.kubeconfig_in(tmp_path)) as leader:
                await until(lambda: leader.leads, "the first leads")
                with jobs.lab.controller() as other:
                    await jobs.submit(20)

                    def are_lost() -> bool:
                        heard = len(proxy.with_fate(Fate.LOSE_ANSWER))
                        return heard == 3 <= len(proxy.with_fate(Fate.LOSE_REQUEST))

                    await until(are_lost, "writes were lost")
                    leader.end()
                    await until(lambda: other.leads, "the other leads")
                    await jobs.until_all_finished(FINISH_MAX_S)

    play(breakable, tmp_path, story)


def lose_admissions(heard_by_server: int) -> Callable[[Request], Fate]:
    """The first ones have their effect, but no answer; the others don't get to the server."""
    heard: list[Request] = []

    def rule(request: Request) -> Fate:
        if not is_patch_of("workloads", request):
            return Fate.PASS
        heard.append(request)
        return Fate.LOSE_ANSWER if len(heard) <= heard_by_server else Fate.LOSE_REQUEST

    return rule


@pytest.mark.parametrize("plural", ["workloads", "jobs"])
def test_what_a_dead_leader_sent_and_comes_late_undoes_nothing_that_the_next_decided(
    breakable: Plane, tmp_path: Path, plural: str
) -> None:
    """There is quota for all: who of several gets it, the next leader may decide otherwise."""

    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            proxy.rule = lambda r: Fate.HOLD if is_patch_of(plural, r) else Fate.PASS
            with jobs.lab.controller(kubeconfig=proxy.kubeconfig_in(tmp_path)) as leader:
                await until(lambda: leader.leads, "the first leads")
                await jobs.submit(20)
                await until(lambda: len(proxy.with_fate(Fate.HOLD)) >= 6, "writes are held")
            with jobs.lab.controller() as other:
                await until(lambda: other.leads, "the other leads")
                await jobs.until_finished(2, FINISH_MAX_S)
                proxy.release()
                await jobs.until_all_finished(FINISH_MAX_S)
                held = proxy.with_fate(Fate.HOLD)
                await until(lambda: all(r.code for r in held), "all that was held is answered")
                assert {request.code for request in held} == {409}

    play(breakable, tmp_path, story, quota=10)


def is_patch_of(plural: str, request: Request) -> bool:
    return request.method == "PATCH" and f"/{plural}/" in request.path


def test_a_leader_that_slept_past_its_lease_writes_nothing_when_it_wakes(
    breakable: Plane, tmp_path: Path
) -> None:
    async def story(jobs: Flow) -> None:
        async with proxy_to(breakable.access) as proxy:
            with jobs.lab.controller(kubeconfig=proxy.kubeconfig_in(tmp_path)) as sleeper:
                await until(lambda: sleeper.leads, "the first leads")
                with jobs.lab.controller() as other:
                    await jobs.submit(JOBS)
                    await jobs.until_finished(10, FINISH_MAX_S)
                    sleeper.signal(signal.SIGSTOP)
                    await until(lambda: other.leads, "the other leads")
                    woken_at = time.monotonic()
                    sleeper.signal(signal.SIGCONT)
                    await jobs.until_all_finished(FINISH_MAX_S)
                    assert other.leads
                    assert not sleeper.leads
                    assert all(write.code == 409 for write in proxy.writes_since(woken_at))

    play(breakable, tmp_path, story)


async def until(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TAKEOVER_MAX_S
    while not claim():
        assert time.monotonic() < deadline, f"in {TAKEOVER_MAX_S:.0f} s it did not come to: {what}"
        await asyncio.sleep(0.1)


def test_ten_thousand_workloads_are_listed_again_and_the_lease_is_kept(
    breakable: Plane, tmp_path: Path
) -> None:
    async def run() -> None:
        lab = Cluster(breakable, tmp_path)
        await lab.set_up()
        await lab.queue("full", cpu=1, queueingStrategy="StrictFIFO")
        await lab.queue("free", cpu=1)
        await create_many(lab, MANY)
        async with proxy_to(breakable.access) as proxy:
            with lab.controller(kubeconfig=proxy.kubeconfig_in(tmp_path)) as leader:
                print()
                await until_admitted(lab, "first")
                report("first list", proxy, leader)
                forget_workloads_once(proxy)
                await until(lambda: len(proxy.lists_of(WORKLOADS)) == 3, "they are listed again")
                await until_admitted(lab, "second")
                report("list again", proxy, leader)
                assert leader.log().count("term=begins") == 1
                assert "lost_to" not in leader.log()
        await lab.client.close()

    asyncio.run(run())


async def create_many(lab: Cluster, count: int) -> None:
    began, numbers = time.monotonic(), iter(range(count))

    async def create() -> None:
        for number in numbers:
            await lab.client.create(WORKLOADS, workload(lab, f"many-{number}", "full"))

    await asyncio.gather(*(create() for _ in range(IN_FLIGHT)))
    print(f"\n{count} workloads created in {time.monotonic() - began:.1f} s")


def workload(lab: Cluster, name: str, queue: str) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": lab.namespace},
        "spec": {
            "queueName": queue,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def forget_workloads_once(proxy: Proxy) -> None:
    """The next watch of Workloads is told that it comes too late."""
    told: list[Request] = []

    def rule(request: Request) -> Fate:
        if request.is_watch and request.path == WORKLOADS.path() and not told:
            told.append(request)
            return Fate.GONE
        return Fate.PASS

    proxy.rule = rule
    proxy.sever()


async def until_admitted(lab: Cluster, name: str) -> None:
    """A workload that is created now, in a queue that has room for one, and gone afterwards."""
    await lab.client.create(WORKLOADS, workload(lab, name, "free"))

    async def is_admitted() -> bool:
        found = await lab.client.get(WORKLOADS, name, lab.namespace)
        return "Admitted" in true_conditions(found)

    await lab.until(is_admitted, f"{name} is admitted")
    await lab.client.delete(WORKLOADS, name, lab.namespace)


def report(what: str, proxy: Proxy, leader: Process) -> None:
    listed = proxy.lists_of(WORKLOADS)[-1].at
    watches = [r.at for r in proxy.requests if r.is_watch and r.path == WORKLOADS.path()]
    watched = next(at for at in watches if at > listed)
    renewed = [request.at for request in proxy.renewals()]
    pause_s = max((b - a for a, b in pairwise(renewed)), default=0.0)
    print(
        f"{what}: {watched - listed:.1f} s, memory {memory_mb(leader.pid):.0f} MB, "
        f"longest pause between renewals of the lease {pause_s:.1f} s"
    )


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(pid)
