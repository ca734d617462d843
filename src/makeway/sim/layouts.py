"""Which column of a table means what: mappings given by the user, known layouts, good guesses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from makeway.sim.trace_jobs import CPUS, GPUS, MEMORY, SimulationError

NAME, QUEUE, SUBMIT, RUN, START, END = "name", "queue", "submit", "run", "start", "end"
PODS, PODS_MIN, PRIORITY, STATE = "pods", "pods_min", "priority", "state"
CANCEL, CHECKPOINT, TRES = "cancel", "checkpoint", "tres"
USER, FLAVORS, REQUESTED, AFTER, THINK = "user", "flavors", "requested", "after", "think"
PROGRAM = "program"
RUN_ON = "run@"  # with the name of a flavor: the run time there
NO_COLUMN = "-"
PLAIN = "CSV"  # the layout of tables that are not known
_RESOURCE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+/[A-Za-z0-9._-]+", re.ASCII)
FIELDS = (
    *(NAME, QUEUE, SUBMIT, RUN, START, END, GPUS, CPUS, MEMORY),
    *(PODS, PODS_MIN, PRIORITY, STATE, CANCEL, CHECKPOINT, TRES),
    *(USER, PROGRAM, FLAVORS, REQUESTED, AFTER, THINK),
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
    USER: ("user", "username", "userid", "owner"),
    PROGRAM: ("program", "executable", "application"),
    FLAVORS: ("flavors", "flavor", "gputype", "gpumodel", "gpuspec"),
    REQUESTED: ("requested", "requestedtime", "timerequested", "timelimit", "reqtime"),
    AFTER: ("after", "dependson", "dependency", "dependencies"),
    THINK: ("think", "thinktime"),
}


def parse_mapping(text: str) -> dict[str, TraceColumn]:
    """`submit=timestamp,cpus=cpu_milli*0.001` as columns by field; `after=-` reads none."""
    columns: dict[str, TraceColumn] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, equals, column = part.partition("=")
        name, star, factor = column.partition("*")
        if not equals or not name:
            raise SimulationError(f"--map {part}: write FIELD=COLUMN, for example submit=timestamp")
        if field not in FIELDS and "/" not in field and not field.startswith(RUN_ON):
            known = ", ".join(FIELDS)
            raise SimulationError(
                f"--map {part}: there is no field {field}; write one of {known},"
                " run@FLAVOR, or a resource such as example.com/fpga"
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
        "start=start_time,end=end_time,run=duration,user=user",
    ),
    "Acme": (
        "job_id user gpu_num cpu_num type submit_time duration",
        "name=job_id,queue=type,gpus=gpu_num,cpus=cpu_num,state=state,submit=submit_time,"
        "start=start_time,end=end_time,run=duration,user=user",
    ),
    "Slurm database": (
        "id_job time_submit time_start time_end cpus_req",
        "name=id_job,queue=partition,user=id_user,submit=time_submit,start=time_start,end=time_end,"
        "cpus=cpus_req,tres=gres_used,requested=timelimit*60,program=job_name",
    ),
    "Alibaba": (
        "num_gpu creation_time deletion_time scheduled_time",
        "name=name,queue=qos,gpus=num_gpu,cpus=cpu_milli*0.001,memory=memory_mib*1048576,"
        "state=pod_phase,submit=creation_time,start=scheduled_time,end=deletion_time,"
        "flavors=gpu_spec",
    ),
    "sacct": (
        "JobID Submit Start End",
        "name=JobID,queue=Partition,submit=Submit,start=Start,end=End,state=State,cpus=AllocCPUS,"
        "tres=AllocTRES,run=Elapsed,user=User,flavors=ReqTRES,requested=Timelimit,after=Dependency,"
        "program=JobName",
    ),
}


def recognise(header: Sequence[str], mapping: Mapping[str, TraceColumn]) -> Layout:
    """The layout of a table by its header; what the user has mapped comes first."""
    present = set(header)
    for name, (signature, columns_known) in KNOWN_LAYOUTS.items():
        if present.issuperset(signature.split()):
            known = {f: c for f, c in parse_mapping(columns_known).items() if c.name in present}
            return Layout(name=name, columns=read_columns({**known, **mapping}))
    taken = {column.name for column in mapping.values()}
    plain = {_plain(name): name for name in reversed(header) if name not in taken}
    columns = dict(mapping)
    for field, words in GUESSES.items():
        found = next((plain[word] for word in words if word in plain), None)
        if field not in columns and found is not None:
            columns[field] = TraceColumn(found)
    for name in header:
        if _is_own_field(name, columns) and name not in columns and name not in taken:
            columns[name] = TraceColumn(name)
    return Layout(name=PLAIN, columns=read_columns(columns))


def _is_own_field(name: str, columns: Mapping[str, TraceColumn]) -> bool:
    """Whether a column is called as a field is that no guess would find."""
    if name.startswith(RUN_ON):
        return True
    is_told = GPUS in columns and name.endswith("/gpu")
    return _RESOURCE.fullmatch(name) is not None and not is_told


def read_columns(columns: Mapping[str, TraceColumn]) -> dict[str, TraceColumn]:
    """Those that are to be read: `after=-` leaves out what would be found."""
    return {field: column for field, column in columns.items() if column.name != NO_COLUMN}


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
