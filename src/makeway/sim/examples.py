"""Built-in scenarios: small worlds that show one thing each."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from makeway.sim.cluster import SimulatedCluster, parse_cluster
from makeway.sim.trace_jobs import SimulationError, Trace
from makeway.sim.traces import parse_trace


class Example(NamedTuple):
    name: str
    summary: str
    variants: tuple[str, ...] = ()  # other queues for the same jobs, to compare with


EXAMPLES = (
    Example("borrow", "two teams share GPUs; the owner takes back what the other borrowed"),
    Example(
        "stockout",
        "spot machines don't come; rules move jobs to the next flavor",
        ("stockout-without-rules",),
    ),
    Example("flapping", "two priorities want one place; nobody is preempted in vain"),
    Example("gang", "jobs of 16 GPUs against a stream of small ones", ("gang-best-effort",)),
    Example(
        "thrash",
        "urgent jobs stop others before these have come to anything",
        ("thrash-min-runtime", "thrash-least-lost"),
    ),
    Example("fair", "three teams, one cohort, and a share for each by weight"),
)
VARIANTS = tuple(variant for example in EXAMPLES for variant in example.variants)


def queues_text(name: str) -> str:
    """The queue objects of an example, as a user would write them."""
    return _text(f"{name if name in VARIANTS else _known(name)}.yaml")


def trace_text(name: str) -> str:
    return _text(f"{_known(name)}.csv")


def load_example(name: str) -> tuple[SimulatedCluster, Trace]:
    cluster = parse_cluster(queues_text(name), f"{name}.yaml")
    return cluster, parse_trace(trace_text(name), f"{name}.csv")


def load_variant(name: str) -> SimulatedCluster:
    return parse_cluster(queues_text(name), f"{name}.yaml")


def _known(name: str) -> str:
    names = [example.name for example in EXAMPLES]
    if name not in names:
        raise SimulationError(f"there is no example {name}; there are {', '.join(names)}")
    return name


def _text(file: str) -> str:
    return files("makeway.sim").joinpath("examples", file).read_text(encoding="utf-8")
