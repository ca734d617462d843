"""CronJobs: defaults, and what is refused."""

from typing import Any

from tests.harness.documents import Document, template
from tests.kube.stories.registry import kubectl_story, story
from tests.kube.story_client import MERGE, StoryClient


def _cron(name: str, **spec: Any) -> Document:
    made_of = {"spec": {"template": template(restartPolicy="Never")}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": made_of, **spec},
    }


@story
async def cron_jobs_are_completed(t: StoryClient) -> None:
    url = t.apis("batch/v1", "cronjobs")
    await t.call("a cron job", "POST", url, _cron("c"))
    every = _cron("e", schedule="@every 1h30m", timeZone="Europe/Berlin", suspend=None)
    await t.call("every so often", "POST", url, every, show=("spec.schedule", "spec.suspend"))
    for step, spec in (("a zone", {"timeZone": "Etc/UTC"}), ("a policy", {"suspend": False})):
        await t.call(
            step, "PATCH", f"{url}/c", {"spec": spec}, MERGE, show=("metadata.generation",)
        )


_BAD: dict[str, Document] = {
    "no schedule": {"schedule": ""},
    "four fields": {"schedule": "* * * *"},
    "a minute too many": {"schedule": "60 * * * *"},
    "the seventh day": {"schedule": "* * * * 7"},
    "a zone in the schedule": {"schedule": "TZ=UTC 0 0 * * *"},
    "a zone that is none": {"timeZone": "Nowhere/City"},
    "the local zone": {"timeZone": "Local"},
    "a policy": {"concurrencyPolicy": "Perhaps"},
    "a negative deadline": {"startingDeadlineSeconds": -1},
    "a negative history": {"successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2},
    "pods that never end": {
        "jobTemplate": {"spec": {"template": template(restartPolicy="Always")}}
    },
    "a negative number of pods": {
        "jobTemplate": {"spec": {"parallelism": -1, "template": template(restartPolicy="Never")}}
    },
}


@story
async def bad_cron_jobs_are_refused(t: StoryClient) -> None:
    url = t.apis("batch/v1", "cronjobs")
    for number, (step, spec) in enumerate(_BAD.items()):
        await t.call(step, "POST", url, _cron(f"c{number}", **spec), show=("metadata.name",))
    await t.call("a long name", "POST", url, _cron("c" * 53), show=("metadata.name",))


@kubectl_story
async def kubectl_makes_cron_jobs(t: StoryClient) -> None:
    words = ("--image=busybox", "--schedule=0 0 1 1 *", "--", "true")
    t.kubectl("a cron job", "create", "cronjob", "c", *words)
    t.kubectl("suspended", "patch", "cronjob", "c", "-p", '{"spec": {"suspend": true}}')
    t.kubectl("shown", "get", "cronjobs", "-o", "wide")
    t.kubectl("a job of it", "create", "job", "one", "--from=cronjob/c")
    owner = "jsonpath={.metadata.ownerReferences[0].kind} {.metadata.annotations}"
    t.kubectl("whose it is", "get", "job", "one", "-o", owner)
