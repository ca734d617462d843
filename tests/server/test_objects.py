"""What becomes of objects: create, change, delete."""

import asyncio
from pathlib import Path

import pytest

from makeway.api.configuration import Configuration, PreemptionPriority
from tests.harness.documents import cluster_queue, job, pod
from tests.server.harness import (
    JOBS,
    JSON,
    MERGE,
    PODS,
    QUEUES,
    START,
    Document,
    Server,
    binding,
    play,
    settled,
)

GANGS = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
GANG = {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": 2}}}]}


def test_a_created_object_has_identity_and_defaults(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, job(), code=201)
        metadata, spec = made["metadata"], made["spec"]
        assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
        assert metadata["generation"] == 1
        assert metadata["namespace"] == "default"
        assert spec["completions"] == spec["parallelism"] == 1
        assert spec["selector"]["matchLabels"] == {
            "batch.kubernetes.io/controller-uid": metadata["uid"]
        }
        labels = spec["template"]["metadata"]["labels"]
        assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "train"
        assert await server.json("GET", f"{JOBS}/train") == made

    play(tmp_path, story)


def test_names_are_made_up_from_generate_name(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        wanted = job()
        wanted["metadata"] = {"generateName": "run-"}
        names = {(await server.json("POST", JOBS, wanted))["metadata"]["name"] for _ in range(20)}
        assert len(names) == 20
        assert all(name.startswith("run-") and len(name) == 9 for name in names)

    play(tmp_path, story)


def test_the_status_of_a_new_object_is_the_servers(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, {**job(), "status": {"active": 7}})
        assert made["status"] == {}
        node: Document = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
        made = await server.json("POST", "/api/v1/nodes", node)
        assert made["status"]["capacity"] == {"cpu": "4"}

    play(tmp_path, story)


BAD = {
    "unknown": (
        {"spec": {"resourceGroups": [], "nope": 1}},
        400,
        'strict decoding error: unknown field "spec.nope"',
    ),
    "type": ({"spec": {"cohortName": 5}}, 422, "spec.cohortName: Invalid value: 5"),
    "enum": (
        {"spec": {"queueingStrategy": "LIFO"}},
        422,
        'ClusterQueue.kueue.x-k8s.io "q" is invalid: spec.queueingStrategy: Invalid value: "LIFO"',
    ),
    "kind": ({"kind": "Cohort"}, 400, "the kind in the data does not match the URL"),
    "version": ({"apiVersion": "v1"}, 400, "does not match the expected API version"),
    "name": ({"metadata": {"name": "Q_1"}}, 422, "is not a name"),
    "no name": ({"metadata": {}}, 422, "metadata.name: Required value"),
    "revision": (
        {"metadata": {"name": "q", "resourceVersion": "5"}},
        400,
        "resourceVersion should not be set on objects to be created",
    ),
}


@pytest.mark.parametrize(("change", "code", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_word(
    tmp_path: Path, change: Document, code: int, words: str
) -> None:
    async def story(server: Server) -> None:
        wanted = {**cluster_queue("q"), **change}
        answer = await server.json("POST", f"{QUEUES}?fieldValidation=Strict", wanted, code=code)
        assert words in answer["message"]
        assert answer["kind"] == "Status"
        assert answer["status"] == "Failure"
        assert (await server.json("GET", QUEUES))["items"] == []

    play(tmp_path, story)


def test_unknown_fields_are_dropped_with_a_warning(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        response = await server.send("POST", JOBS, job(nope=1))
        assert ("Warning", '299 - "unknown field \\"spec.nope\\""') in response.headers
        assert "nope" not in (await server.json("GET", f"{JOBS}/train"))["spec"]
        response = await server.send("POST", f"{JOBS}?fieldValidation=Ignore", job("b", nope=1))
        assert response.headers == ()

    play(tmp_path, story)


def test_the_namespace_has_to_exist(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        url = "/apis/batch/v1/namespaces/nowhere/jobs"
        answer = await server.json("POST", url, job(), code=404)
        assert answer["message"] == 'namespaces "nowhere" not found'
        wanted = job()
        wanted["metadata"]["namespace"] = "other"
        answer = await server.json("POST", JOBS, wanted, code=400)
        assert "does not match the namespace" in answer["message"]

    play(tmp_path, story)


def test_the_same_name_twice_is_a_conflict(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())
        answer = await server.json("POST", JOBS, job(), code=409)
        assert answer["reason"] == "AlreadyExists"
        assert answer["message"] == 'jobs.batch "train" already exists'
        assert answer["details"] == {"name": "train", "group": "batch", "kind": "jobs"}

    play(tmp_path, story)


def test_a_stale_revision_is_a_conflict(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, job())
        made["spec"]["suspend"] = True
        changed = await server.json("PUT", f"{JOBS}/train", made)
        assert changed["metadata"]["generation"] == 2
        answer = await server.json("PUT", f"{JOBS}/train", made, code=409)
        assert answer["reason"] == "Conflict"
        assert answer["message"].startswith(
            'Operation cannot be fulfilled on jobs.batch "train": the object has been modified'
        )

    play(tmp_path, story)


def test_a_write_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, job())
        before = server.store.revision
        same = await server.json("PUT", f"{JOBS}/train", made)
        patch = {"spec": {"parallelism": 1}}
        patched = await server.json("PATCH", f"{JOBS}/train", patch, content_type=MERGE)
        assert made == same == patched
        assert server.store.revision == before

    play(tmp_path, story)


def test_status_and_spec_are_written_apart(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", QUEUES, cluster_queue())
        patch = {"spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 3}}
        url = f"{QUEUES}/vision"
        after = await server.json("PATCH", f"{url}/status", patch, content_type=MERGE)
        assert after["status"] == {"pendingWorkloads": 3}
        assert after["spec"]["stopPolicy"] == "None"
        assert after["metadata"]["generation"] == 1

        patch = {"spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 4}}
        after = await server.json("PATCH", url, patch, content_type=MERGE)
        assert after["spec"]["stopPolicy"] == "Hold"
        assert after["status"] == {"pendingWorkloads": 3}
        assert after["metadata"]["generation"] == 2

    play(tmp_path, story)


def test_a_dry_run_answers_and_writes_nothing(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", f"{JOBS}?dryRun=All", job(), code=201)
        assert made["metadata"]["uid"]
        await server.json("GET", f"{JOBS}/train", code=404)
        await server.json("POST", JOBS, job())
        patched = await server.json(
            "PATCH", f"{JOBS}/train?dryRun=All", {"spec": {"suspend": True}}, content_type=MERGE
        )
        assert patched["spec"]["suspend"] is True
        await server.json("DELETE", f"{JOBS}/train", {"dryRun": ["All"]})
        assert not (await server.json("GET", f"{JOBS}/train"))["spec"]["suspend"]

    play(tmp_path, story)


def test_fixed_fields_of_jobs_and_pods_stay(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job(suspend=True))
        patch = {"spec": {"completions": 5}}
        answer = await server.json("PATCH", f"{JOBS}/train", patch, content_type=MERGE, code=422)
        assert "field is immutable" in answer["message"]
        # A queue sets where the pods of a suspended job may run.
        selector = {"spec": {"template": {"spec": {"nodeSelector": {"type": "spot"}}}}}
        await server.json("PATCH", f"{JOBS}/train", selector, content_type=MERGE)
        running = {"spec": {"suspend": False}}
        await server.json("PATCH", f"{JOBS}/train", running, content_type=MERGE)
        selector["spec"]["template"]["spec"]["nodeSelector"] = {"type": "other"}
        await server.json("PATCH", f"{JOBS}/train", selector, content_type=MERGE, code=422)

        await server.json("POST", PODS, pod())
        patch2 = {"spec": {"nodeName": "n"}}
        await server.json("PATCH", f"{PODS}/p", patch2, content_type=MERGE, code=422)
        await server.json("POST", f"{PODS}/p/binding", binding("p", "n"), code=201)
        bound = await server.json("GET", f"{PODS}/p")
        assert bound["spec"]["nodeName"] == "n"
        await server.json("POST", f"{PODS}/p/binding", binding("p", "m"), code=409)

    play(tmp_path, story)


def test_deleting_says_what_was_deleted(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        made = await server.json("POST", JOBS, job())
        answer = await server.json("DELETE", f"{JOBS}/train?propagationPolicy=Background")
        assert answer["status"] == "Success"
        assert answer["details"]["uid"] == made["metadata"]["uid"]
        answer = await server.json("GET", f"{JOBS}/train", code=404)
        assert answer["message"] == 'jobs.batch "train" not found'

    play(tmp_path, story)


def test_a_delete_may_ask_for_a_certain_object(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())
        options = {"preconditions": {"uid": "another"}}
        answer = await server.json("DELETE", f"{JOBS}/train", options, code=409)
        assert "the UID in the precondition (another) does not match" in answer["message"]

    play(tmp_path, story)


def test_finalizers_hold_an_object_until_they_are_gone(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        wanted = cluster_queue()
        wanted["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
        await server.json("POST", QUEUES, wanted)
        url = f"{QUEUES}/vision"
        leaving = await server.json("DELETE", url)
        assert leaving["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
        assert (await server.json("DELETE", url))["metadata"] == leaving["metadata"]
        free = {"metadata": {"finalizers": None}}
        await server.json("PATCH", url, free, content_type=MERGE)
        await server.json("GET", url, code=404)

    play(tmp_path, story)


def test_a_running_pod_gets_time_to_end(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", PODS, pod())
        await server.json("POST", f"{PODS}/p/binding", binding("p", "n"))
        leaving = await server.json("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 10})
        assert leaving["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:30Z"
        await server.json("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
        await server.json("GET", f"{PODS}/p", code=404)

        await server.json("POST", PODS, pod("unbound"))
        await server.json("DELETE", f"{PODS}/unbound")
        await server.json("GET", f"{PODS}/unbound", code=404)

    play(tmp_path, story)


def test_pods_get_the_priority_of_their_class(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await server.json("POST", classes, {"metadata": {"name": "high"}, "value": 1000})
        made = await server.json("POST", PODS, pod(priorityClassName="high"))
        assert made["spec"]["priority"] == 1000
        answer = await server.json("POST", PODS, pod("q", priorityClassName="no"), code=403)
        assert "no PriorityClass with name no was found" in answer["message"]

    play(tmp_path, story)


def test_a_cycle_of_cohorts_is_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        url = "/apis/kueue.x-k8s.io/v1beta2/cohorts"
        for name, parent in (("a", "b"), ("b", "c")):
            await server.json(
                "POST", url, {"metadata": {"name": name}, "spec": {"parentName": parent}}
            )
        closing = {"metadata": {"name": "c"}, "spec": {"parentName": "a"}}
        answer = await server.json("POST", url, closing, code=422)
        assert "spec.parentName" in answer["message"]
        assert "makes a cycle (c > a > b > c)" in answer["message"]
        await server.json("POST", url, {"metadata": {"name": "c"}})
        patch = {"spec": {"parentName": "a"}}
        await server.json("PATCH", f"{url}/c", patch, content_type=MERGE, code=422)

    play(tmp_path, story)


def test_a_preemption_priority_below_the_priority_is_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        for name, value in (("low", 1), ("high", 1000)):
            await server.json("POST", classes, {"metadata": {"name": name}, "value": value})
        wanted = pod(priorityClassName="high")
        wanted["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": "low"}
        answer = await server.json("POST", PODS, wanted, code=422)
        assert "is below the scheduling priority (1000)" in answer["message"]

    play(tmp_path, story)


def test_a_preemption_priority_too_far_above_the_priority_is_refused(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        for name, value in (("low", 10), ("near", 60), ("far", 61)):
            await server.json("POST", classes, {"metadata": {"name": name}, "value": value})
        for kind in (JOBS, PODS):
            make = job if kind is JOBS else pod
            for name in ("near", "far"):
                wanted = make(name)
                spec = wanted["spec"] if make is pod else wanted["spec"]["template"]["spec"]
                spec["priorityClassName"] = "low"
                wanted["metadata"]["annotations"] = {"makeway.dev/preemption-priority-class": name}
                answer = await server.json(
                    "POST", kind, wanted, code=201 if name == "near" else 422
                )
            assert "(61) is too far above the scheduling priority (10)" in answer["message"]
        gang = {"spec": {**GANG, "priorityClassName": "low", "preemptionPriorityClassName": "far"}}
        answer = await server.json("POST", GANGS, {"metadata": {"name": "g"}, **gang}, code=422)
        assert "name a class of at most 60" in answer["message"]

    bound = PreemptionPriority(max_distance=50)
    play(tmp_path, story, configuration=Configuration(preemption_priority=bound))


def test_a_gang_names_classes_that_exist_and_gets_the_default_of_all(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for field in ("priorityClassName", "preemptionPriorityClassName"):
            wanted = {"metadata": {"name": "g"}, "spec": {**GANG, field: "nope"}}
            answer = await server.json("POST", GANGS, wanted, code=403)
            assert answer["message"].endswith("no PriorityClass with name nope was found")
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        usual = {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
        await server.json("POST", classes, usual)
        made = await server.json("POST", GANGS, {"metadata": {"name": "g"}, "spec": GANG})
        assert made["spec"]["priorityClassName"] == "usual"
        await server.json("DELETE", f"{classes}/usual")
        label = {"metadata": {"labels": {"a": "b"}}}
        await server.json("PATCH", f"{GANGS}/g", label, content_type=MERGE)  # as pods may, too

    play(tmp_path, story)


def test_both_versions_of_a_kind_show_the_same_object(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        old = cluster_queue(cohort="lab", preemption={"reclaimWithinCohort": "Any"})
        old["apiVersion"] = "kueue.x-k8s.io/v1beta1"
        old_url = QUEUES.replace("v1beta2", "v1beta1")
        made = await server.json("POST", f"{old_url}?fieldValidation=Strict", old)
        assert made["spec"]["cohort"] == "lab"
        new = await server.json("GET", f"{QUEUES}/vision")
        assert new["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert new["spec"]["cohortName"] == "lab"
        patch = {"spec": {"cohort": "other"}}
        await server.json("PATCH", f"{old_url}/vision", patch, content_type=MERGE)
        assert (await server.json("GET", f"{QUEUES}/vision"))["spec"]["cohortName"] == "other"
        assert (await server.json("GET", old_url))["items"][0]["spec"]["cohort"] == "other"

    play(tmp_path, story)


def test_many_patches_of_one_object_at_once_all_count(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())

        async def label(number: int) -> None:
            patch = {"metadata": {"labels": {f"l{number}": "x"}}}
            await server.json("PATCH", f"{JOBS}/train", patch, content_type=MERGE)

        await asyncio.gather(*(label(number) for number in range(50)))
        labels = (await server.json("GET", f"{JOBS}/train"))["metadata"]["labels"]
        assert sum(name.startswith("l") for name in labels) == 50

    play(tmp_path, story)


def test_dependents_go_with_their_owner(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        owner = await server.json("POST", JOBS, job())
        await server.json("POST", PODS, _owned("mine", owner))
        await server.json("POST", PODS, _owned("orphan", owner, uid="gone"))
        await server.json("POST", PODS, pod("free"))
        await settled(lambda: server.store.count("pods") == 2)
        await server.json("DELETE", f"{JOBS}/train", {"propagationPolicy": "Background"})
        await settled(lambda: server.store.count("pods") == 1)
        await server.json("GET", f"{PODS}/free")

    play(tmp_path, story)


def _owned(name: str, owner: Document, uid: str = "") -> Document:
    wanted = pod(name)
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": owner["metadata"]["name"],
        "uid": uid or owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    wanted["metadata"]["ownerReferences"] = [reference]
    return wanted


def test_orphans_stay_without_their_owner(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        owner = await server.json("POST", JOBS, job())
        await server.json("POST", PODS, _owned("mine", owner))
        await server.json("DELETE", f"{JOBS}/train", {"propagationPolicy": "Orphan"})
        await settled(lambda: server.store.count("jobs.batch") == 0)
        assert "ownerReferences" not in (await server.json("GET", f"{PODS}/mine"))["metadata"]

    play(tmp_path, story)


def test_in_the_foreground_the_owner_goes_last(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        owner = await server.json("POST", JOBS, job())
        held = _owned("mine", owner)
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await server.json("POST", PODS, held)
        await server.json("DELETE", f"{JOBS}/train", {"propagationPolicy": "Foreground"})
        await settled(lambda: b"deletionTimestamp" in server.store.scan("pods")[0].body)
        await server.json("GET", f"{JOBS}/train")
        free = {"metadata": {"finalizers": None}}
        await server.json("PATCH", f"{PODS}/mine", free, content_type=MERGE)
        await settled(lambda: server.store.count("jobs.batch") == 0)

    play(tmp_path, story)


def test_a_namespace_takes_everything_in_it_along(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        jobs = "/apis/batch/v1/namespaces/team/jobs"
        await server.json("POST", jobs, job())
        leaving = await server.json("DELETE", "/api/v1/namespaces/team")
        assert leaving["status"]["phase"] == "Terminating"
        await server.json("POST", jobs, job("late"), code=403)
        await settled(lambda: server.store.count("namespaces") == 3)
        assert server.store.count("jobs.batch") == 0

    play(tmp_path, story)


def test_events_expire(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        events = "/api/v1/namespaces/default/events"
        event = {"metadata": {"name": "e"}, "involvedObject": {}, "reason": "R"}
        await server.json("POST", events, {**event, "lastTimestamp": "2023-11-14T22:13:20Z"})
        await server.app.collector.expire_events()
        assert server.store.count("events") == 1
        server.now = START + 3700
        await server.app.collector.expire_events()
        assert server.store.count("events") == 0

    play(tmp_path, story)


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def running_pod(server: Server, labels: dict[str, str]) -> None:
    await server.json("POST", PODS, {**pod(), "metadata": {"name": "p", "labels": labels}})
    running = {"status": {"phase": "Running"}}
    await server.json("PATCH", f"{PODS}/p/status", running, content_type=MERGE)


def test_eviction_obeys_disruption_budgets(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await running_pod(server, {"app": "x"})
        budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}}
        await server.json("POST", BUDGETS, budget)
        answer = await server.json("POST", f"{PODS}/p/eviction", {}, code=429)
        assert "disruption budget" in answer["message"]
        allowed = {"status": {"disruptionsAllowed": 1}}
        await server.json("PATCH", f"{BUDGETS}/b/status", allowed, content_type=MERGE)
        await server.json("POST", f"{PODS}/p/eviction", {}, code=201)
        await server.json("GET", f"{PODS}/p", code=404)
        left = await server.json("GET", f"{BUDGETS}/b")
        assert left["status"]["disruptionsAllowed"] == 0

    play(tmp_path, story)


IN_A = {"key": "app", "operator": "In", "values": ["a"]}
NOT_IN_A = {"key": "app", "operator": "NotIn", "values": ["a"]}


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        pytest.param({"matchExpressions": [IN_A]}, 429, id="an expression that holds"),
        pytest.param({"matchExpressions": [NOT_IN_A]}, 201, id="an expression that doesn't"),
        pytest.param({}, 429, id="an empty selector matches every pod"),
        pytest.param(None, 201, id="an absent selector matches none"),
        pytest.param(
            {"matchLabels": {"app": "a"}, "matchExpressions": [NOT_IN_A]},
            201,
            id="labels and an expression that contradicts them",
        ),
    ],
)
def test_an_eviction_is_up_to_the_budgets_whose_selector_matches(
    tmp_path: Path, selector: Document | None, code: int
) -> None:
    async def story(server: Server) -> None:
        await running_pod(server, {"app": "a"})
        spec = {"minAvailable": 1} if selector is None else {"selector": selector}
        await server.json("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        await server.json("POST", f"{PODS}/p/eviction", {}, code=code)

    play(tmp_path, story)


def test_a_collection_is_deleted_by_selector(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for name in "ab":
            wanted = job(name)
            wanted["metadata"]["labels"] = {"app": name}
            await server.json("POST", JOBS, wanted)
        await server.json("DELETE", f"{JOBS}?labelSelector=app%3Da")
        left = await server.json("GET", JOBS)
        assert [item["metadata"]["name"] for item in left["items"]] == ["b"]

    play(tmp_path, story)


def test_a_write_that_the_disk_refuses_is_an_error_and_nothing_more(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job("before"))
        server.store.limit_pages(10)
        big = job("big")
        big["metadata"]["annotations"] = {"a": "x" * 200_000}
        answer = await server.json("POST", JOBS, big, code=507)
        assert "nothing of it is there" in answer["message"]
        await server.json("GET", f"{JOBS}/big", code=404)
        server.store.limit_pages(10_000)
        await server.json("POST", JOBS, job("after"))

    play(tmp_path, story)


def test_yaml_bodies_and_bodies_without_a_type_are_read(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        text = b"metadata: {name: team}\n"
        await server.json("POST", "/api/v1/namespaces", text, content_type="application/yaml")
        await server.json("POST", JOBS, job(), content_type="")
        await server.json("POST", JOBS, job("b"), content_type="text/csv", code=415)
        await server.json("POST", JOBS, job("b"), content_type=f"{JSON}; charset=utf-8")

    play(tmp_path, story)
