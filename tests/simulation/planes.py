"""The control planes that can be played: the real one, and toys."""

from __future__ import annotations

from collections.abc import Mapping

from makeway import embedded
from makeway.controller.budgets import BudgetStatuses
from makeway.plane.picture import Picture
from makeway.runner.host import Host
from makeway.runner.jobs import JobPods
from makeway.runner.pods import PodRunner
from tests.simulation.play import Assembled, Plane
from tests.simulation.toys import ToyBinder, ToyJobs, ToyQueue
from tests.simulation.worlds import World

OF_THE_MACHINES = (JobPods, PodRunner, BudgetStatuses)  # in a cluster Kubernetes does their work


def real(picture: Picture, host: Host, world: World) -> Assembled:
    """Exactly the parts that `makeway up` runs."""
    plane = embedded.Plane(picture, world.configuration, host, world.nodes)
    return Assembled(
        deciding=[part for part in plane.parts if not isinstance(part, OF_THE_MACHINES)],
        running=[part for part in plane.parts if isinstance(part, OF_THE_MACHINES)],
        noticed=plane.pods.noticed,
        admission=plane.admission,
    )


def toys(picture: Picture, host: Host, world: World) -> Assembled:
    pods = PodRunner(picture, host, world.nodes)
    deciding = (ToyQueue(picture), ToyBinder(picture))
    return Assembled(deciding=deciding, running=(ToyJobs(picture), pods), noticed=pods.noticed)


PLANES: Mapping[str, Plane] = {"real": real, "toys": toys}
