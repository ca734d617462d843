"""How a job ended is told by its own failure, not by what befell its machine."""

from typing import Any

from makeway.api.batch import Pod
from makeway.api.codec import decode_as
from makeway.translate.job_end import first_failure


def pod(code: int, minute: int, **status: Any) -> Pod:
    ended = {"exitCode": code, "finishedAt": f"2026-01-01T00:{minute:02}:00Z"}
    states = [{"name": "main", "state": {"terminated": ended}}]
    document = {"metadata": {"name": "p"}, "status": {"containerStatuses": states, **status}}
    found = decode_as(Pod, document).object
    assert found is not None
    return found


def test_a_pod_that_ended_with_its_machine_has_not_failed() -> None:
    rebooted = pod(143, 1, reason="NodeRebooted")
    failure = first_failure([rebooted, pod(3, 2), pod(4, 3)])

    assert failure is not None
    assert failure.code == 3
    assert first_failure([rebooted]) is None
