"""Which column of a table means what: mappings given by the user, known layouts, good guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from makeway.sim.trace_jobs import CPUS, GPUS, MEMORY, SimulationError

NAME, QUEUE, SUBMIT, RUN, START, END = "name", "queue", "submit", "run", "start", "end"
PODS, PODS_MIN, PRIORITY, STATE = "pods", "pods_min", "priority", "state"
CANCEL, CHECKPOINT, TRES = "cancel", "checkpoint", "tres"
FIELDS = (
    *(NAME, QUEUE, SUBMIT, RUN, START, END, GPUS, CPUS, MEMORY),
    *(PODS, PODS_MIN, PRIORITY, STATE, CANCEL, CHECKPOINT, TRES),
)


class TraceColumn(NamedTuple):
    name: str  # as in the header
    factor: float = 1.0  # what numbers of the column are multiplied by


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    name: str
    columns: Mapping[str, TraceColumn]  # by field, or by resource (any name with a slash)


# What columns of unknown tables are usually called, in lower case without separators.
GUESSES: Mapping[str, tuple[str, ...]] = {
    NAME: ("name", "id", "jobid", "job", "jobname"),
    QUEUE: ("queue", "localqueue", "clusterqueue", "cluster", "vc", "partition", "team"),
    SUBMIT: ("submit", "submittime", "submitted", "timestamp", "arrival", "created", "time"),
    RUN: ("run", "runtime", "duration", "runs", "elapsed", "walltime", "durations"),
    START: ("start", "starttime", "started"),
    END: ("end", "endtime", "ended", "finish", "finished"),
    GPUS: ("gpus", "gpu", "numgpus", "gpunum", "numgpu", "ngpus"),
    CPUS: ("cpus", "cpu", "numcpus", "cpunum", "ncpus", "cores", "procs"),
    MEMORY: ("memory", "mem"),
    PODS: ("pods", "nodes", "tasks", "replicas"),
    PODS_MIN: ("podsmin", "minpods"),
    PRIORITY: ("priority", "prio", "priorityclass"),
    STATE: ("state", "status"),
    CANCEL: ("cancel", "cancelled", "canceltime"),
    CHECKPOINT: ("checkpoint", "checkpoints", "checkpointinterval"),
}


def parse_mapping(text: str) -> dict[str, TraceColumn]:
    """`submit=timestamp,cpus=cpu_milli*0.001` as columns by field."""
    columns: dict[str, TraceColumn] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, equals, column = part.partition("=")
        name, star, factor = column.partition("*")
        if not equals or not name:
            raise SimulationError(f"--map {part}: write FIELD=COLUMN, for example submit=timestamp")
        if field not in FIELDS and "/" not in field:
            known = ", ".join(FIELDS)
            raise SimulationError(
                f"--map {part}: there is no field {field}; write one of {known},"
                " or a resource such as example.com/fpga"
            )
        try:
            columns[field] = TraceColumn(name, float(factor) if star else 1.0)
        except ValueError:
            problem = f"--map {part}: {factor} is not a number to multiply by"
            raise SimulationError(problem) from None
    return columns


# By name of a layout: the columns by which it is told apart from others, and all of its columns,
# of which some may be missing.
KNOWN_LAYOUTS = {
    "Philly": (
        "timestamp duration num_gpus cluster",
        "submit=timestamp,run=duration,gpus=num_gpus,queue=cluster",
    ),
    "Helios": (
        "vc gpu_num submit_time duration",
        "name=job_id,queue=vc,gpus=gpu_num,cpus=cpu_num,state=state,submit=submit_time,"
        "start=start_time,end=end_time,run=duration",
    ),
    "Alibaba": (
        "num_gpu creation_time deletion_time scheduled_time",
        "name=name,queue=qos,gpus=num_gpu,cpus=cpu_milli*0.001,memory=memory_mib*1048576,"
        "state=pod_phase,submit=creation_time,start=scheduled_time,end=deletion_time",
    ),
    "sacct": (
        "JobID Submit Start End",
        "name=JobID,queue=Partition,submit=Submit,start=Start,end=End,state=State,cpus=AllocCPUS,"
        "tres=AllocTRES,run=Elapsed",
    ),
}


def recognise(header: Sequence[str], mapping: Mapping[str, TraceColumn]) -> Layout:
    """The layout of a table by its header; what the user has mapped comes first."""
    present = set(header)
    for name, (signature, columns_known) in KNOWN_LAYOUTS.items():
        if present.issuperset(signature.split()):
            known = {f: c for f, c in parse_mapping(columns_known).items() if c.name in present}
            return Layout(name=name, columns={**known, **mapping})
    taken = {column.name for column in mapping.values()}
    plain = {_plain(name): name for name in reversed(header) if name not in taken}
    columns = dict(mapping)
    for field, words in GUESSES.items():
        found = next((plain[word] for word in words if word in plain), None)
        if field not in columns and found is not None:
            columns[field] = TraceColumn(found)
    return Layout(name="CSV", columns=columns)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
