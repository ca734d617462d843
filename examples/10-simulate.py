"""A policy tested like code: fails when a change of queues makes a team wait too long.

Run it with `python examples/10-simulate.py`, or put such asserts into a test of your own
repository of queue objects.
"""

from makeway.sim import simulate
from makeway.sim.examples import load_example, load_variant

HOUR = 3600

queues, jobs = load_example("gang")  # or simulate("queues.yaml", "jobs.csv")
strict = simulate(queues, jobs)
loose = simulate(load_variant("gang-best-effort"), jobs)

print(f"p95 wait with StrictFIFO:     {strict.wait('training').p95 / HOUR:.1f} h")
print(f"p95 wait with BestEffortFIFO: {loose.wait('training').p95 / HOUR:.1f} h")
print(f"longest wait with BestEffort: {loose.wait('training').longest / HOUR:.1f} h")

assert strict.wait("training").longest < 2 * HOUR, "nobody waits for hours"
assert loose.job("gang-1").evictions == 0
assert loose.wait("training").longest > 4 * HOUR, "big jobs starve behind small ones"
assert strict.makespan.seconds < loose.makespan.seconds
