"""Rules for CronJobs."""

from dataclasses import replace

from makeway.api.batch import Job
from makeway.api.codec import decode_unconverted
from makeway.api.cron import CronJob
from makeway.api.schedules import ScheduleError, parse_schedule, zone_of
from makeway.api.validation.findings import Findings
from makeway.api.validation.pods import check_job

NAME_MAX = 52  # its Jobs have eleven letters more
_TEMPLATE = ("spec", "jobTemplate")


def check_cron_job(cron: CronJob, found: Findings) -> None:
    spec, here = cron.spec, found.at("spec")
    if len(cron.metadata.name) > NAME_MAX:
        hint = f"write at most {NAME_MAX} letters: the names of its Jobs are longer"
        found.at("metadata", "name").add(cron.metadata.name, "is too long", hint)
    _check_schedule(spec.schedule, here.at("schedule"))
    if spec.time_zone is not None and zone_of(spec.time_zone) is None:
        hint = "write a name such as Europe/Berlin or Etc/UTC, or leave it out"
        here.at("timeZone").add(spec.time_zone, "is not a time zone", hint)
    for name, count in (
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if count is not None and count < 0:
            here.at(name).add(count, "is negative", "write 0 or more")
    _check_template(cron, found)


def _check_schedule(text: str, found: Findings) -> None:
    hint = 'write five fields such as "30 2 * * 1-5", or @daily'
    if "TZ" in text:
        found.add(text, "has a time zone in it", "write spec.timeZone instead")
        return
    try:
        parse_schedule(text)
    except ScheduleError as error:
        found.add(text, f"is not a schedule: {error}", hint)


def _check_template(cron: CronJob, found: Findings) -> None:
    """By the rules of the Jobs that are made of it."""
    decoded = decode_unconverted(Job, cron.spec.job_template.document or {})
    above = ".".join(_TEMPLATE)
    found.errors += [replace(error, path=f"{above}.{error.path}") for error in decoded.errors]
    if decoded.object is not None:
        check_job(decoded.object, found.at(*_TEMPLATE))
