"""Whenever we are killed, each pod runs exactly once, and how it ended is known."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.prerequisites import samples
from tests.runner.harness import UID, Machine, end_of, machine_in, wait_for

PODS_EACH = 6  # new ones for each kill
KILLS = int(os.environ.get("MAKEWAY_RUNNER_KILLS", samples(16)))
DRIVER = """
import sys, time
from pathlib import Path
from tests.prerequisites import samples
from tests.runner.harness import UID, Machine, order, shell
machine = Machine(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    uid = f"{sys.argv[3]}-{number}"
    if uid not in machine.host.states():
        machine.host.start(order(shell("echo run; sleep 0.1; exit 7"), uid=uid))
        time.sleep(0.02)
while not all(state.is_over for state in machine.host.states().values()):
    machine.host.look_at_all()
    time.sleep(0.01)
"""


def test_pods_run_once_however_often_we_are_killed(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    lots = random.Random(seed)
    with machine_in(tmp_path):
        for kill in range(KILLS + 1):
            count = PODS_EACH * (kill + 1)
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, str(tmp_path), str(count), UID]
            )
            if kill < KILLS:
                wait_for((tmp_path / "pods" / f"{UID}-{count - PODS_EACH}").exists)
                time.sleep(lots.uniform(0.0, 0.2))
                driver.kill()
            assert driver.wait(60) in (0, -9)
        machine = Machine(tmp_path)
        for number in range(PODS_EACH * (KILLS + 1)):
            uid = f"{UID}-{number}"
            state = machine.state(uid)
            assert (machine.log(uid), end_of(state).exit_code) == ("run\n", 7), f"seed {seed}"
