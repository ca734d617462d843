"""What kubectl prints."""

import json

from tests.harness.documents import cluster_queue, group, job, pod, queueing, workload
from tests.kube.stories.registry import kubectl_story
from tests.kube.story_client import StoryClient


def _file(*documents: object) -> str:
    return "\n---\n".join(json.dumps(document) for document in documents)


@kubectl_story
async def kubectl_manages_files(t: StoryClient) -> None:
    text = _file(job("train", suspend=True), pod("p"))
    t.kubectl("create", "create", "-f", "-", text=text)
    t.kubectl("create again", "create", "-f", "-", text=text)
    t.kubectl("apply", "apply", "-f", "-", text=_file(job("two", suspend=True)))
    t.kubectl("apply again", "apply", "-f", "-", text=_file(job("two", suspend=True)))
    changed = _file(job("two", suspend=True, parallelism=3))
    t.kubectl("apply a change", "apply", "-f", "-", text=changed)
    number = "jsonpath={.spec.parallelism} {.metadata.generation}"
    t.kubectl("what became of it", "get", "job", "two", "-o", number)
    t.kubectl("diff", "diff", "-f", "-", text=changed)
    t.kubectl("replace", "replace", "-f", "-", text=_file(pod("p", {"labels": {"a": "b"}})))
    t.kubectl("delete", "delete", "-f", "-", text=_file(job("two")))
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod("one"), pod("two")]}
    t.kubectl("a list", "apply", "-f", "-", text=_file(listed))
    broken = _file(job("x", nope=1))
    t.kubectl("an unknown field", "apply", "-f", "-", text=broken)


@kubectl_story
async def kubectl_applies_on_the_server(t: StoryClient) -> None:
    words = ("apply", "--server-side", "-f", "-")
    t.kubectl("apply", *words, text=_file(pod("p", {"labels": {"a": "1"}})))
    t.kubectl("apply again", *words, text=_file(pod("p", {"labels": {"a": "1"}})))
    t.kubectl("a label by another", "label", "pod", "p", "a=2", "--overwrite")
    t.kubectl("a conflict", *words, text=_file(pod("p", {"labels": {"a": "3"}})))
    forced = (*words, "--force-conflicts")
    t.kubectl("by force", *forced, text=_file(pod("p", {"labels": {"a": "3"}})))
    t.kubectl("what it has", "get", "pod", "p", "-o", "jsonpath={.metadata.labels}")


@kubectl_story
async def kubectl_shows_things(t: StoryClient) -> None:
    t.kubectl("nothing", "get", "jobs")
    t.kubectl("create", "create", "-f", "-", text=_file(job("train", suspend=True), pod("p")))
    t.kubectl("jobs", "get", "jobs")
    t.kubectl("jobs in full", "get", "jobs", "-o", "wide")
    t.kubectl("pods and labels", "get", "pods", "--show-labels")
    t.kubectl("by name", "get", "job/train", "pod/p", "-o", "name")
    t.kubectl("none", "get", "job", "none")
    t.kubectl("no such kind", "get", "nopes")
    t.kubectl("sorted", "get", "pods", "--sort-by=.metadata.name")
    columns = "custom-columns=NAME:.metadata.name,POLICY:.spec.restartPolicy"
    t.kubectl("own columns", "get", "pods", "-o", columns)
    t.kubectl("selected", "get", "pods", "-l", "a=b")
    t.kubectl("selected by field", "get", "pods", "--field-selector", "spec.nope=1")


@kubectl_story
async def kubectl_changes_things(t: StoryClient) -> None:
    t.kubectl("create", "create", "-f", "-", text=_file(job("train", suspend=True), pod("p")))
    t.kubectl("label", "label", "job", "train", "a=b")
    t.kubectl("label again", "label", "job", "train", "a=c")
    t.kubectl("annotate", "annotate", "job", "train", "x=y")
    patch = '{"spec":{"parallelism":2}}'
    t.kubectl("patch", "patch", "job", "train", "--type=merge", "-p", patch)
    t.kubectl("patch to the same", "patch", "job", "train", "--type=merge", "-p", patch)
    t.kubectl("strategic", "patch", "pod", "p", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    t.kubectl("delete", "delete", "pod", "p")
    t.kubectl("delete again", "delete", "pod", "p")
    t.kubectl("unless gone", "delete", "pod", "p", "--ignore-not-found")
    t.kubectl("a dry run", "delete", "job", "train", "--dry-run=server")
    t.kubectl("wait for what is", "wait", "job/train", "--for=jsonpath={.spec.suspend}=true")
    words = ("wait", "job/train", "--for=condition=Complete", "--timeout=1s")
    t.kubectl("wait for what is not", *words)


@kubectl_story
async def kubectl_knows_queues(t: StoryClient) -> None:
    queue = cluster_queue("kubectl-vision", cohortName="lab", resourceGroups=[group("cpu")])
    door = queueing("LocalQueue", "team", spec={"clusterQueue": "kubectl-vision"})
    text = _file(queue, door, workload("w"))
    t.kubectl("create", "create", "-f", "-", text=text)
    t.kubectl("apply", "apply", "-f", "-", text=text, sort=True)
    t.kubectl("queues", "get", "cq", "kubectl-vision")
    t.kubectl("queues in full", "get", "cq", "kubectl-vision", "-o", "wide")
    t.kubectl("doors", "get", "queues")
    t.kubectl("workloads", "get", "wl")
    hold = '{"spec":{"stopPolicy":"Hold"}}'
    t.kubectl("hold", "patch", "cq", "kubectl-vision", "--type=merge", "-p", hold)
    t.kubectl("strategic", "patch", "cq", "kubectl-vision", "-p", hold)
    bad = _file(cluster_queue("kubectl-bad", nope=1))
    t.kubectl("an unknown field", "create", "-f", "-", text=bad)


@kubectl_story
async def kubectl_creates_by_words(t: StoryClient) -> None:
    t.kubectl("a job", "create", "job", "hello", "--image=busybox", "--", "echo", "hi")
    t.kubectl("its parts", "get", "job", "hello", "-o", "jsonpath={.spec.template.spec.containers}")
    t.kubectl("a class", "create", "priorityclass", "kubectl-high", "--value=1000")
    t.kubectl("classes", "get", "priorityclass", "kubectl-high")
    t.kubectl("a pod", "run", "p", "--image=busybox", "--restart=Never")
    budget = ("create", "pdb", "b", "--selector=app=x", "--min-available=1")
    t.kubectl("a budget", *budget)
    t.kubectl("budgets", "get", "pdb")
    t.kubectl("a right", "auth", "can-i", "create", "jobs")
