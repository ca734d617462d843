"""CPU time of admission cycles, by size of the cluster; the cases of design section 14.

Every figure is the best of a few runs, each on a world of its own, in CPU time of this process.
Garbage is collected before a run starts and the collector stays on during it, as in a driver.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from benchmarks.worlds import (
    BEST_EFFORT,
    LOWER_ONLY,
    LOWER_OR_BORROWED,
    LOWER_OR_NEWER,
    NO_PREEMPTION,
    STRICT,
    Load,
    World,
    forest,
    full,
    full_and_free,
    lent_out,
    one_queue,
    sizes,
)
from makeway.engine import events as ev
from makeway.engine.model import Phase, Preemption, QueueName
from makeway.engine.nominate import Nominator
from makeway.engine.preview import play_out

QUEUE = "queue-0"
HIGH = 100


class Scale(NamedTuple):
    """Sizes of the worlds, and how often each is measured."""

    queues: int
    cohorts: int
    running: int  # in one queue
    pending: tuple[int, ...]  # in one queue
    victims: tuple[int, ...]
    workloads: int  # for the memory
    runs: int


FULL = Scale(1_000, 100, 5_000, (500, 5_000, 50_000), (100, 1_000, 4_900), 100_000, 2)
QUICK = Scale(100, 10, 500, (50, 500, 5_000), (10, 100, 490), 10_000, 2)


class Row(NamedTuple):
    case: str
    size: str
    figure: float
    unit: str
    aim: str = ""


Act = Callable[[World], object]


def cpu_ms(build: Callable[[], World], *acts: Act, runs: int) -> list[float]:
    """The best CPU time of each act; they follow each other, on a world built anew per run."""
    best = [float("inf")] * len(acts)
    for _ in range(runs):
        world = build()
        gc.collect()
        for i, act in enumerate(acts):
            start = time.process_time()
            act(world)
            best[i] = min(best[i], time.process_time() - start)
        del world
    return [seconds * 1_000 for seconds in best]


# --- (a) many queues ---


def all_fit(scale: Scale) -> Iterator[Row]:
    for part in (4, 2, 1):
        queues, cohorts = scale.queues // part, scale.cohorts // part
        build = partial(forest, full_and_free(queues, cohorts))
        (figure,) = cpu_ms(build, World.cycle, runs=scale.runs)
        size = f"{queues} queues, {cohorts} cohorts, {10 * queues} running, {10 * queues} pending"
        yield Row("(a)  all fit", size, figure, "cycle", "< 100" if part == 1 else "")


def nothing_fits(scale: Scale) -> Iterator[Row]:
    """All pending workloads of a queue have one shape; in the last rows they have ten.

    With preemption on nobody is less important than the pending ones; or one in every queue is,
    so that victims are looked for, taken on trial and found not to suffice.
    """
    for said, preemption, low in (
        ("preemption off", NO_PREEMPTION, 0),
        ("preemption on", LOWER_ONLY, 0),
        ("in vain", LOWER_ONLY, 1),
    ):
        for strategy in (STRICT, BEST_EFFORT):
            loads = full(scale.queues, scale.cohorts, low=low)
            build = partial(forest, loads, strategy, preemption)
            first, again = cpu_ms(build, World.cycle, World.cycle, runs=scale.runs)
            size = f"{scale.queues} queues, {said}, {strategy.value}"
            yield Row("(a') nothing fits", size, first, "cycle", "< 50")
            yield Row("     nothing changed", size, again, "cycle", "~ 0")
    build = partial(forest, full(scale.queues, scale.cohorts, shapes=10))
    acts = [World.cycle] * 11
    figures = cpu_ms(build, *acts, runs=1)
    size = f"{scale.queues} queues, ten shapes per queue, {BEST_EFFORT.value}"
    yield Row("(a') nothing fits", size, sum(figures[:10]) / 10, "cycle 1-10", "< 50")
    yield Row("     nothing changed", size, figures[10], "cycle 11", "~ 0")


# --- (b) one long queue ---


def long_queue(scale: Scale) -> Iterator[Row]:
    """One finishes, its place is given to the next, and the one after that is parked again."""
    rounds = 100
    for said, preemption, sizes_tried in (
        ("preemption off", NO_PREEMPTION, scale.pending),
        ("preempts newer ones", LOWER_OR_NEWER, scale.pending[-1:]),
    ):
        for pending in sizes_tried:
            build = partial(_settled, _long_queue(scale, pending), preemption)
            (figure,) = cpu_ms(build, partial(_turn_over, rounds=rounds), runs=scale.runs)
            size = f"{scale.running} running, {pending} pending, {said}"
            yield Row("(b)  finish, admit, park", size, figure / rounds, "admission", "< 0.2")


def waking(scale: Scale) -> Iterator[Row]:
    for pending in scale.pending:
        for said, shapes in (("one shape", 1), ("all of different shapes", pending)):
            build = partial(_settled, _long_queue(scale, pending, shapes))
            woken, cycle = cpu_ms(build, _finish_one, World.cycle, runs=1)
            size = f"{pending} parked, {said}"
            yield Row("(b)  one finishes, all wake", size, woken, "event", "flat")
            yield Row("     the cycle after that", size, cycle, "cycle", "flat")


def _long_queue(scale: Scale, pending: int, shapes: int = 1) -> Load:
    running = scale.running
    return Load(name=QUEUE, quota=running, running=running, pending=sizes(pending, shapes))


def _settled(load: Load, preemption: Preemption = NO_PREEMPTION) -> World:
    """The queue after as many cycles as it takes to park everybody."""
    world = one_queue(load, BEST_EFFORT, preemption)
    while world.cycle():
        pass
    return world


def _finish_one(world: World) -> None:
    holder = world.engine.state.queues[QueueName(QUEUE)].holders[0].entry
    world.engine.apply(ev.WorkloadFinished(holder.workload.key))


def _turn_over(world: World, rounds: int) -> None:
    for _ in range(rounds):
        _finish_one(world)
        while world.cycle():
            pass


# --- (c) victims in one queue ---


def victims(scale: Scale) -> Iterator[Row]:
    for wanted in scale.victims:
        load = Load(
            name=QUEUE, quota=scale.running, running=scale.running, pending=(wanted,), priority=HIGH
        )
        build = partial(one_queue, load, BEST_EFFORT, LOWER_ONLY)
        nominated, cycle = cpu_ms(build, _nominate, World.cycle, runs=2 * scale.runs)
        size = f"{scale.running} running, {wanted} have to go"
        aim = "< 3" if wanted == scale.victims[0] else ""
        yield Row("(c)  nomination", size, nominated, "nomination", aim)
        yield Row("     with the evictions", size, cycle, "cycle")


def _nominate(world: World) -> None:
    """What a cycle does to find flavors and victims for its head."""
    queue = world.engine.state.queues[QueueName(QUEUE)]
    head = queue.pending.head()
    assert head is not None
    found = Nominator(world.engine.state, head, queue, queue.tree.snapshot).nominate()
    assert found.victims, "the benchmark wants somebody preempted"


# --- (d) a deep tree, (e) fair sharing ---


def deep_tree(scale: Scale) -> Iterator[Row]:
    """Queues that have lent all they have take back ten pods each, from borrowers everywhere."""
    branches = [(f"branch-{i}", "root", 0) for i in range(10)]
    twigs = [(f"cohort-{i}", f"branch-{i % 10}", 0) for i in range(scale.cohorts)]
    for owners in (1, scale.queues // 100, scale.queues // 10):
        loads, pool = lent_out(scale.queues, scale.cohorts, owners, roots=1)
        cohorts = [("root", None, pool), *branches, *twigs]
        build = partial(forest, loads, BEST_EFFORT, LOWER_OR_BORROWED, cohorts=cohorts)
        acts = (World.cycle, _let_one_go, World.cycle)
        first, _, second = cpu_ms(build, *acts, runs=1 if owners > 1 else scale.runs)
        size = f"{scale.queues} queues, 4 levels, {owners} reclaim 10 pods each"
        yield Row("(d)  deep tree", size, first, "cycle")
        yield Row("     one victim is gone", size, second, "cycle")


def _let_one_go(world: World) -> None:
    evicting = (e for e in world.engine.state.entries.values() if e.phase is Phase.EVICTING)
    world.engine.apply(ev.PodsGone(next(evicting).workload.key))


def fair_sharing(scale: Scale) -> Iterator[Row]:
    for cohorts in (scale.cohorts, 1):
        build = partial(forest, full_and_free(scale.queues, cohorts), is_fair=True)
        (figure,) = cpu_ms(build, World.cycle, runs=scale.runs)
        size = f"{scale.queues} queues, {cohorts} cohort{'s' * (cohorts > 1)}, all fit"
        yield Row("(e)  fair sharing", size, figure, "cycle")
    for cohorts in (scale.cohorts, 1):
        loads, pool = lent_out(scale.queues, cohorts, owners=cohorts, roots=cohorts)
        roots = [(f"cohort-{i}", None, pool) for i in range(cohorts)]
        build = partial(forest, loads, BEST_EFFORT, LOWER_OR_BORROWED, cohorts=roots, is_fair=True)
        (figure,) = cpu_ms(build, World.cycle, runs=scale.runs)
        size = f"{scale.queues} queues, {cohorts} cohort{'s' * (cohorts > 1)}, 1 of each reclaims"
        yield Row("     with preemption", size, figure, "cycle")


# --- memory ---


def memory(scale: Scale) -> Iterator[Row]:
    """What a process grows by that is told of so many workloads, a tenth of them running."""
    if not sys.platform.startswith("linux"):
        return
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        grown = pool.apply(_memory_mb, (scale.workloads, scale.queues, scale.cohorts))
    yield Row(
        "     memory", f"{scale.workloads} workloads, {scale.queues} queues", grown, "MB", "< 400"
    )


def _memory_mb(workloads: int, queues: int, cohorts: int) -> float:
    before = _resident_mb()
    each = workloads // queues
    loads = [
        Load(
            name=f"queue-{i}",
            cohort=f"cohort-{i % cohorts}",
            quota=each // 10 + 1,
            running=each // 10,
            pending=sizes(each - each // 10, 10),
        )
        for i in range(queues)
    ]
    world = forest(loads)
    world.cycle()
    return _resident_mb() - before


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / (1 << 20)


# --- the table ---

# --- what would happen, and beginning anew ---


def previews(scale: Scale) -> Iterator[Row]:
    """Of one more job, when nobody fits; in one tree of thirty queues, or in five of six."""
    running, pending = scale.workloads // 300, scale.workloads // 300 - 33
    for trees in (1, 5):
        loads = [
            Load(
                name=f"queue-{i}",
                cohort=f"cohort-{i % trees}",
                quota=33,
                running=33,
                running_low=3,
                pending=sizes(pending, 10),
            )
            for i in range(30)
        ]
        build = partial(_at_rest, loads)
        size = f"{30 * running} workloads in {trees} trees"
        for said, pods, priority in (("waits", 1, 0), ("preempts", 1, HIGH), ("never", 10**6, 0)):
            act = partial(_preview, pods=pods, priority=priority)
            (figure,) = cpu_ms(build, act, runs=scale.runs)
            yield Row(f"     preview, {said}", size, figure, "preview", "< 50")
    (figure,) = cpu_ms(build, lambda world: world.engine.begin_anew(world.now), runs=scale.runs)
    yield Row("     beginning anew", size, figure, "segment")


def _at_rest(loads: Iterable[Load]) -> World:
    world = forest(loads, BEST_EFFORT, LOWER_ONLY)
    play_out(world.engine, world.now)
    return world


def _preview(world: World, pods: int, priority: int) -> None:
    gc.disable()  # as whoever answers them does
    world.preview(QUEUE, pods, priority)
    gc.enable()


CASES = (
    *(all_fit, nothing_fits, long_queue, waking, victims, deep_tree, fair_sharing, previews),
    memory,
)


def print_rows(rows: Iterable[Row]) -> None:
    print(f"{'case':28} {'size':58} {'':>10}  {'per':11} aim")
    for row in rows:
        unit = row.unit if row.unit == "MB" else f"ms/{row.unit}"
        print(f"{row.case:28} {row.size:58} {row.figure:10.3f}  {unit:13} {row.aim}", flush=True)


def main(arguments: Sequence[str] = ()) -> None:
    scale = QUICK if "--quick" in arguments else FULL
    wanted = [name for name in arguments if not name.startswith("-")]
    print_rows(
        row for case in CASES if not wanted or case.__name__ in wanted for row in case(scale)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
