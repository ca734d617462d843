"""Jobs: defaults, what is fixed, what a queue may set while they are suspended."""

from tests.harness.documents import container, job, template
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, StoryClient


@story
async def jobs_are_completed(t: StoryClient) -> None:
    show = ("metadata.generation", "spec", "status")
    indexed = job("indexed", suspend=True, completionMode="Indexed", completions=3, parallelism=2)
    await t.call("indexed", "POST", t.jobs(), indexed, show=show)
    queue = job("queue", suspend=True, parallelism=2)
    numbers = ("spec.completions", "spec.parallelism", "spec.backoffLimit")
    await t.call("a work queue", "POST", t.jobs(), queue, show=numbers)
    count = job("count", suspend=True, completions=3)
    await t.call("only completions", "POST", t.jobs(), count, show=numbers)
    manual = job("manual", suspend=True, manualSelector=True)
    manual["spec"]["selector"] = {"matchLabels": {"mine": "yes"}}
    manual["spec"]["template"]["metadata"] = {"labels": {"mine": "yes"}}
    parts = ("spec.selector", "spec.template.metadata.labels", "spec.manualSelector")
    await t.call("a selector of one's own", "POST", t.jobs(), manual, show=parts)
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    failing = job("failing", suspend=True, podFailurePolicy=policy, backoffLimit=2)
    parts = ("spec.podFailurePolicy", "spec.podReplacementPolicy", "spec.backoffLimit")
    await t.call("a failure policy", "POST", t.jobs(), failing, show=parts)
    managed = job("managed", suspend=True, managedBy="example.com/other")
    await t.call("managed by another", "POST", t.jobs(), managed, show=("spec.managedBy",))
    await t.call("not suspended", "POST", t.jobs(), job("runs"), show=("spec.suspend",))


@story
async def bad_jobs_are_refused(t: StoryClient) -> None:
    await t.call("no template", "POST", t.jobs(), {"metadata": {"name": "x"}, "spec": {}})
    always = job("x", template=template(restartPolicy="Always"))
    await t.call("a restart policy", "POST", t.jobs(), always)
    unset = job("x")
    del unset["spec"]["template"]["spec"]["restartPolicy"]
    await t.call("no restart policy", "POST", t.jobs(), unset)
    await t.call("a negative number", "POST", t.jobs(), job("x", parallelism=-1))
    mode = job("x", completionMode="Indexed", parallelism=2)
    await t.call("indexed without completions", "POST", t.jobs(), mode)
    await t.call("an unknown mode", "POST", t.jobs(), job("x", completionMode="Ordered"))
    await t.call("a deadline of none", "POST", t.jobs(), job("x", activeDeadlineSeconds=-1))
    selector = job("x", selector={"matchLabels": {"a": "b"}})
    await t.call("a selector", "POST", t.jobs(), selector)
    await t.call("two at once", "POST", t.jobs(), job("x", parallelism=-1, backoffLimit=-2))
    image = job("x", template=template(containers=[{"name": "main"}]))
    await t.call("no image", "POST", t.jobs(), image)


@story
async def what_is_fixed_in_a_job(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("plain"))
    for step, spec in (
        ("completions", {"completions": 5}),
        ("a mode", {"completionMode": "Indexed"}),
        ("a selector", {"selector": {"matchLabels": {"a": "b"}}}),
        ("an image", {"template": {"spec": {"containers": [container(image="other")]}}}),
        ("a node selector", {"template": {"spec": {"nodeSelector": {"a": "b"}}}}),
        ("parallelism", {"parallelism": 5}),
        ("a back-off limit", {"backoffLimit": 3}),
        ("a deadline", {"activeDeadlineSeconds": 60}),
        ("time to live", {"ttlSecondsAfterFinished": 60}),
        ("suspension", {"suspend": True}),
        ("a manager", {"managedBy": "example.com/other"}),
    ):
        show = ("metadata.generation", *(f"spec.{n}" for n in spec if n != "template"))
        await t.call(step, "PATCH", t.jobs("plain"), {"spec": spec}, MERGE, show=show)
    indexed = job("indexed", completionMode="Indexed", completions=2, parallelism=2)
    await t.quiet("POST", t.jobs(), indexed)
    url, show = t.jobs("indexed"), ("spec.completions", "spec.parallelism")
    alone = {"spec": {"completions": 3}}
    await t.call("completions of an indexed job alone", "PATCH", url, alone, MERGE, show=show)
    both = {"spec": {"completions": 3, "parallelism": 3}}
    await t.call("both numbers of an indexed job", "PATCH", url, both, MERGE, show=show)


@story
async def what_a_queue_may_set_in_a_suspended_job(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    gate = [{"name": "example.com/a"}]
    resources = [container(resources={"limits": {"cpu": "2"}})]
    for step, part in (
        ("a node selector", {"spec": {"nodeSelector": {"type": "spot"}}}),
        ("tolerations", {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}),
        ("labels", {"metadata": {"labels": {"a": "b"}}}),
        ("annotations", {"metadata": {"annotations": {"a": "b"}}}),
        ("gates", {"spec": {"schedulingGates": gate}}),
        ("an image", {"spec": {"containers": [container(image="other")]}}),
        ("resources", {"spec": {"containers": resources}}),
        ("a priority class", {"spec": {"priorityClassName": "system-node-critical"}}),
        ("its own label", {"metadata": {"labels": {"job-name": "other"}}}),
    ):
        show = ("spec.template.spec.nodeSelector", "spec.template.metadata.labels")
        patch = {"spec": {"template": part}}
        await t.call(step, "PATCH", t.jobs("train"), patch, MERGE, show=show)
    both = {"suspend": False, "template": {"spec": {"nodeSelector": {"type": "fast"}}}}
    show = ("spec.suspend", "spec.template.spec.nodeSelector")
    await t.call("and let it run", "PATCH", t.jobs("train"), {"spec": both}, MERGE, show=show)
    late = {"spec": {"template": {"spec": {"nodeSelector": {"type": "late"}}}}}
    await t.call("too late", "PATCH", t.jobs("train"), late, MERGE, show=show)
    await t.quiet("PATCH", t.jobs("train"), {"spec": {"suspend": True}}, MERGE)
    await t.call("suspended again", "PATCH", t.jobs("train"), late, MERGE, show=show)
    started = {"status": {"startTime": "2020-01-01T00:00:00Z", "active": 1}}
    await t.quiet("PATCH", f"{t.jobs('train')}/status", started, MERGE)
    late["spec"]["template"]["spec"]["nodeSelector"]["type"] = "later"
    await t.call("while pods still run", "PATCH", t.jobs("train"), late, MERGE, show=show)


@story
async def the_status_of_a_job_makes_sense(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train"))
    url = f"{t.jobs('train')}/status"
    negative = {"status": {"active": -1}}
    await t.call("a negative number", "PATCH", url, negative, MERGE)
    early = {"status": {"completionTime": "2020-01-01T00:00:00Z"}}
    await t.call("an end without completion", "PATCH", url, early, MERGE)
    complete = {"type": "Complete", "status": "True", "reason": "Done", "message": "done"}
    complete["lastProbeTime"] = complete["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    done = {"status": {"conditions": [complete]}}
    await t.call("complete out of nowhere", "PATCH", url, done, MERGE)
    met = {**complete, "type": "SuccessCriteriaMet"}
    finished = {
        "startTime": "2020-01-01T00:00:00Z",
        "completionTime": "2020-01-01T00:00:10Z",
        "succeeded": 1,
        "conditions": [met, complete],
    }
    show = ("status", "metadata.generation")
    await t.call("complete in order", "PATCH", url, {"status": finished}, MERGE, show=show)
    undone = {"status": {"conditions": [met]}}
    await t.call("complete no more", "PATCH", url, undone, MERGE)
