"""CronJob: a Job at each time of a schedule."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from makeway.api.batch import PodTemplateSpec
from makeway.api.meta import UNNAMED, ObjectMeta
from makeway.api.schema import Document, Int32, Time, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpecOfTemplate:
    """What is completed of it; the rest is a Job's, as soon as there is one."""

    template: PodTemplateSpec
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplateSpec:
    metadata: ObjectMeta = UNNAMED
    spec: JobSpecOfTemplate
    document: Whole = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobSpec:
    schedule: str
    job_template: JobTemplateSpec
    time_zone: str | None = None  # None: that of the machine
    starting_deadline_seconds: int | None = None  # None: however late
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: Int32 = 3
    failed_jobs_history_limit: Int32 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobStatus:
    active: tuple[Document, ...] = ()  # references to Jobs
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJob:
    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "CronJob"

    metadata: ObjectMeta = UNNAMED
    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()
    document: Whole = field(default=None, repr=False, compare=False)
