"""The machine is started anew: what ran waits again, at its place, and has not failed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from makeway.api.kinds import JOBS, PODS, WORKLOADS
from makeway.api.manifests import write_yaml
from tests.harness.documents import flavor, local_queue, queue
from tests.harness.process import Up, job, running, wait_until


def test_what_ran_is_queued_again_and_keeps_its_place(tmp_path: Path) -> None:
    """Room for one: `first` runs, `second` waits, and after the restart it is `first` again."""
    (tmp_path / "queues.yaml").write_text(
        write_yaml(flavor("default"), queue("main", "1"), local_queue("main", "main"))
    )
    runs, go = tmp_path / "runs", tmp_path / "go"
    script = f"echo $0 >> {runs}; until [ -e {go} ]; do sleep 0.05; done"
    with running(tmp_path / "data") as up:
        up.makeway("apply", "-f", str(tmp_path / "queues.yaml"))
        submitted(up, "first", script)
        wait_until(runs.exists)
        time.sleep(1)  # the order of arrival is told by times in whole seconds
        submitted(up, "second", script)
        wait_until(lambda: len(up.listed(WORKLOADS)) == 2)

        up.kill()
        reboot(up.folder)
        up.start()

        wait_until(lambda: runs.read_text() == "first\nfirst\n")
        workload = next(w for w in up.listed(WORKLOADS) if "first" in w["metadata"]["name"])
        evicted = next(c for c in workload["status"]["conditions"] if c["type"] == "Evicted")
        assert evicted["status"] == "False"  # it has its place again
        assert "The machine was started anew while its pods ran" in evicted["message"]
        ended = [pod for pod in up.listed(PODS) if pod["status"]["phase"] == "Failed"]
        assert [pod["status"]["reason"] for pod in ended] == ["NodeRebooted"]
        go.touch()
        wait_until(lambda: runs.read_text() == "first\nfirst\nsecond\n")
        wait_until(lambda: all(has_succeeded(one) for one in up.listed(JOBS)))
        assert not any(one["status"].get("failed") for one in up.listed(JOBS))


def submitted(up: Up, name: str, script: str) -> None:
    made = job(name, "", queue="main")  # backoffLimit is 0: one failure would be its end
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", script, name]
    up.create(JOBS, made)


def reboot(folder: Path) -> None:
    """All that ran is gone, and the kernel gives another boot id."""
    for path in (folder / "pods").glob("*/state.json"):
        state: dict[str, Any] = json.loads(path.read_text())
        os.kill(state["supervisor"]["pid"], signal.SIGKILL)  # its container goes with it
        state["supervisor"]["boot"] = "before"
        path.write_text(json.dumps(state))


def has_succeeded(document: dict[str, Any]) -> bool:
    conditions = document["status"].get("conditions") or ()
    return any(one["type"] == "Complete" for one in conditions)
