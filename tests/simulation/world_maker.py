"""A world as its seed has planned it: what is there, who brings work, and who changes things."""

from __future__ import annotations

from random import Random

from makeway.api.kinds import FLAVORS, JOBS, LOCAL_QUEUES, QUEUES, Resource
from makeway.engine.model import FlavorResource, Quota
from tests.harness.random_worlds import Worldmaker
from tests.simulation.demand import jobs, others
from tests.simulation.supply import GHOST, QUOTA_MIN, flavor, group_of, knobs_of, supply
from tests.simulation.worlds import (
    MIDDLE,
    PRIORITIES,
    Change,
    Create,
    Remove,
    Size,
    Steps,
    World,
    moments,
    name_in,
    new_configuration,
    new_traits,
)


def new_world(seed: int, size: Size = MIDDLE) -> World:
    chance = Random(f"world {seed}")
    traits = new_traits(chance, size.variety)
    objects, queues = supply(Worldmaker(chance, knobs_of(size, traits)), traits)
    names = [name_in(queue) for queue in queues]
    asked = jobs(chance, size, traits, names)
    arrivals = moments(chance, size.arrivals_s)
    times = sorted(next(arrivals) for _ in asked)
    steps: Steps = [*zip(times, asked, strict=True)]
    for lot in others(chance, traits, names):
        at = next(arrivals)
        steps += [(at, create) for create in lot]
    for _ in range(chance.randint(0, size.edits_max)):
        steps += _edit(chance, queues, asked, size.arrivals_s)
    return World(
        seed=seed,
        traits=traits,
        configuration=new_configuration(chance, traits),
        objects=tuple(objects),
        steps=tuple(sorted(steps, key=lambda step: step[0])),
        faults_s=size.arrivals_s + chance.uniform(30.0, size.faults_s),
    )


def _edit(chance: Random, queues: list[Create], asked: list[Create], until_s: float) -> Steps:
    at = round(chance.uniform(5, until_s), 1)
    later = at + round(chance.uniform(10, 90), 1)
    chosen, job = chance.choice(queues), name_in(chance.choice(asked))
    (quotas,) = chosen.document["spec"]["resourceGroups"]
    flavors = [of["name"] for of in quotas["flavors"]]
    queue = name_in(chosen)
    match chance.choice(["hold", "drain", "local", "delete", "priority", "flavor", "quota"]):
        case "hold":
            return _stopped(QUEUES, queue, "Hold", at, later)
        case "drain":
            return _stopped(QUEUES, queue, "HoldAndDrain", at, later)
        case "local":
            policy = chance.choice(["Hold", "HoldAndDrain"])
            return _stopped(LOCAL_QUEUES, queue, policy, at, later)
        case "delete":
            return [(at, Remove(JOBS, job))]
        case "priority":
            label = {"kueue.x-k8s.io/priority-class": chance.choice(list(PRIORITIES))}
            return [(at, Change(JOBS, job, {"metadata": {"labels": label}}))]
        case "flavor":
            gone = next(name for name in flavors if name != GHOST)
            return [(at, Remove(FLAVORS, gone)), (later, flavor(gone))]
        case _:
            cells = [FlavorResource(of, r) for of in flavors for r in quotas["coveredResources"]]
            changed = group_of({cell: Quota(chance.randint(QUOTA_MIN, 16)) for cell in cells})
            return [(at, Change(QUEUES, queue, {"spec": {"resourceGroups": [changed]}}))]


def _stopped(resource: Resource, name: str, policy: str, at: float, later: float) -> Steps:
    return [
        (at, Change(resource, name, {"spec": {"stopPolicy": policy}})),
        (later, Change(resource, name, {"spec": {"stopPolicy": "None"}})),
    ]
