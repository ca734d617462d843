"""Parsl's own example in small: squares, computed by workers in pods, and their sum."""

import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import KubernetesProvider


@parsl.python_app
def square(number):
    return number * number


@parsl.python_app
def total(inputs=()):
    return sum(inputs)


workers = HighThroughputExecutor(
    label="pods",
    address="127.0.0.1",
    loopback_address="127.0.0.1",
    max_workers_per_node=1,
    provider=KubernetesProvider(
        image="none",
        namespace="default",
        init_blocks=1,
        max_blocks=1,
        worker_init=f"export PATH={sys.prefix}/bin:$PATH",
        max_mem="2Gi",
    ),
)
with parsl.load(Config(executors=[workers], run_dir=sys.argv[1], usage_tracking=0)):
    print("sum", total(inputs=[square(number) for number in (1, 2, 3)]).result(timeout=120))
