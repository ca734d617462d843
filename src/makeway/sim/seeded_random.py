"""Randomness with a seed. Every draw has a name, so that two runs of the same trace under different
policies draw the same for the same job: what differs between them is the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log, sqrt
from random import Random

from makeway.sim.settings import Delay


class SeededRandom:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def named(self, *name: object) -> Random:
        """A source that gives the same numbers whenever it is asked for under this name."""
        return Random(f"{self.seed}/{'/'.join(map(str, name))}")

    def delay_s(self, delay: Delay, *name: object) -> float:
        mean, spread = delay.delay, delay.spread
        match delay.distribution:
            case "Constant":
                return mean
            case "Uniform":
                return max(0.0, mean + spread * self.named(*name).uniform(-1.0, 1.0))
            case "Exponential":
                return self.named(*name).expovariate(1.0 / mean) if mean else 0.0
            case "LogNormal":
                return _log_normal(self.named(*name), mean, spread) if mean else 0.0

    def moments(self, mean_s: float, *name: object) -> Iterator[float]:
        """Moments of a Poisson process, for ever."""
        source, at = self.named(*name), 0.0
        while True:
            at += source.expovariate(1.0 / mean_s)
            yield at


def _log_normal(source: Random, mean: float, deviation: float) -> float:
    variance = log(1.0 + (deviation / mean) ** 2)
    return exp(source.gauss(log(mean) - variance / 2.0, sqrt(variance)))
