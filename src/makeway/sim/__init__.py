"""What would have happened: the same engine on virtual time.

from makeway.sim import simulate

result = simulate("queues.yaml", "jobs.csv")
assert result.wait("team-a").p95 < 3600
"""

from makeway.sim.result import Result
from makeway.sim.simulate import simulate
from makeway.sim.trace_jobs import SimulationError

__all__ = ["Result", "SimulationError", "simulate"]
