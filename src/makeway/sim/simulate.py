"""One call from files to a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from makeway.api.manifests import Manifest
from makeway.sim.cluster import (
    SimulatedCluster,
    build_cluster,
    check_names,
    read_cluster,
    read_objects,
)
from makeway.sim.garbage import seldom_collected
from makeway.sim.knobs import Setup, Turn, parse_turn, turned
from makeway.sim.layouts import parse_mapping
from makeway.sim.load import Load
from makeway.sim.measuring import horizon_s, parse_measure
from makeway.sim.money import check_prices
from makeway.sim.overlay import identity_of, laid_over
from makeway.sim.result import Result
from makeway.sim.trace_jobs import SimulationError, Trace
from makeway.sim.traces import read_trace
from makeway.sim.world import Notice, Watch, World

FileNames = str | Path | Sequence[str | Path]
RECORDED = Load()


def simulate(
    queues: FileNames | SimulatedCluster = (),
    trace: str | Path | Trace = "",
    *,
    map: str = "",
    queue: str | None = None,
    seed: int = 0,
    until: float | None = None,
    measure: str = "all",
    jobs: int | None = None,
    scenario: FileNames = (),
    set: Sequence[str | Turn] = (),
    load: Load = RECORDED,
    explain: Iterable[str] = (),
    watch: Watch | None = None,
    notice: Notice | None = None,
    gates: Mapping[str, bool] | None = None,
) -> Result:
    """Play a trace through the engine and return what came of it.

    `queues` are files of queue objects, `trace` is a log or generator file; both may be given
    ready-made as well. `map` says which column is what (`submit=timestamp,gpus=num_gpus`), `queue`
    takes the jobs whose own queue is not configured, `until` ends the simulation after so many
    seconds (without it, a run that goes on and on is given up), `measure` says which part of the
    run counts (`all`, `steady`, `2d..30d`), `jobs` takes the first so many of the trace. Objects of
    the files in `scenario` are laid over the queues; `set` turns knobs (`quota of flavor a100=640`,
    `load=1.5`), `load` has more of the jobs, or draws them. Jobs named in `explain` keep their
    story. `watch` is asked now and then whether to go on, `notice` is told of circles of
    displacement. `gates` turns feature gates on or off: `{"OwnersFirst": False}`.
    Raises `SimulationError` if a file is not right.
    """
    if not isinstance(trace, Trace):
        trace = read_trace(trace, parse_mapping(map))
    if jobs is not None:
        trace = trace.first(jobs)
    if not isinstance(queues, SimulatedCluster):
        files = _names(queues)
        queues = read_cluster(files, () if files else trace.manifests)
    turns = [parse_turn(one) if isinstance(one, str) else one for one in set]
    queues, load = changed_cluster(queues, _names(scenario), turns, load)
    if gates:
        queues = queues.with_gates(gates)
    measured = parse_measure(measure)
    trace = load.applied(trace, seed)
    with seldom_collected():
        world = World(queues, trace, seed, explain, queue)
        check_prices(queues, world.demand.main_resource)
        horizon = horizon_s(queues, world.demand) if until is None else until
        is_complete = world.run(horizon, watch, notice)
    world.explain_open()
    result = Result(
        cluster=queues,
        trace=trace,
        demand=world.demand,
        record=world.record,
        seed=seed,
        end=world.now,
        is_complete=is_complete,
        until=until,
        measure=measured,
        is_given_up=not is_complete and until is None and world.now >= horizon,
        label=queues.source,
    )
    measured.window(result.last_submit, result.end)  # which is to be told before anything else
    return result


def _names(files: FileNames) -> tuple[str | Path, ...]:
    return (files,) if isinstance(files, str | Path) else tuple(files)


def changed_cluster(
    cluster: SimulatedCluster,
    scenario: Sequence[str | Path],
    turns: Sequence[Turn],
    load: Load = RECORDED,
) -> tuple[SimulatedCluster, Load]:
    """The cluster with objects laid over its own and knobs turned, and its load."""
    if not scenario and not turns:
        check_names(cluster)
        return cluster, load
    manifests, added = _with_scenario(cluster.manifests, scenario)
    setup = turned(Setup(manifests, load), turns)
    words = ", ".join([*map(str, scenario), *map(str, turns)])
    try:
        changed = build_cluster(setup.manifests, f"{cluster.source} with {words}")
        check_names(changed)
    except SimulationError as error:
        if not turns:
            raise  # it says where in which file
        raise SimulationError(f"with {words}: {error}") from None
    changed.notes += added
    return changed, setup.load


def _with_scenario(
    manifests: tuple[Manifest, ...], scenario: Sequence[str | Path]
) -> tuple[tuple[Manifest, ...], list[str]]:
    """And what it adds: whoever meant to change an object would not see that its name is wrong."""
    added = []
    for file in scenario:
        objects = read_objects(file)
        if not objects:
            raise SimulationError(f"{file}: there is no object in it")
        known = {identity_of(manifest) for manifest in manifests}
        for kind, namespace, name in map(identity_of, objects):
            if name and (kind, namespace, name) not in known:
                added.append(f"{file} adds {kind} {name}")
        manifests = laid_over(manifests, objects)
    return manifests, added
