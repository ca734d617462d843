"""A flow of two tasks. Called with nothing, it is deployed to the work pool and run there once."""

import sys
from pathlib import Path

from prefect import flow, task
from prefect.deployments import run_deployment


@task
def square(number: int) -> int:
    return number * number


@flow(log_prints=True)
def squares(count: int = 3) -> int:
    total = sum(square(number + 1) for number in range(count))
    print("sum", total)
    return total


if __name__ == "__main__":
    here = Path(__file__)
    squares.from_source(source=str(here.parent), entrypoint=f"{here.name}:squares").deploy(
        name="on-makeway",
        work_pool_name="makeway",
        job_variables={
            "command": f"{sys.prefix}/bin/prefect flow-run execute",
            "labels": {"kueue.x-k8s.io/queue-name": "default"},
        },
    )
    ended = run_deployment("squares/on-makeway", timeout=180)
    print("flow", ended.state.name)
