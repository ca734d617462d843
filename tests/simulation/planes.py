"""The control planes that can be played: the real one, and toys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from makeway import embedded
from makeway.api.configuration import Configuration
from makeway.client.client import Document
from makeway.client.picture import Picture
from makeway.runner.host import Host
from makeway.runner.pods import PodRunner
from tests.simulation.play import Assembled, Plane
from tests.simulation.toys import ToyBinder, ToyJobs, ToyQueue


def real(picture: Picture, host: Host, nodes: Sequence[Document]) -> Assembled:
    """Exactly the parts that `makeway up` runs."""
    plane = embedded.Plane(picture, Configuration(), host, nodes)
    return Assembled(plane.parts, plane.pods.noticed)


def toys(picture: Picture, host: Host, nodes: Sequence[Document]) -> Assembled:
    pods = PodRunner(picture, host, nodes)
    return Assembled((ToyQueue(picture), ToyJobs(picture), ToyBinder(picture), pods), pods.noticed)


PLANES: Mapping[str, Plane] = {"real": real, "toys": toys}
