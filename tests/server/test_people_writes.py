"""What people may not write though the kind is theirs, and what the server writes for them.

Each refused document is one way past a queue, a quota or an account.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.harness.people import ADA, BOB, GRACE, Document, Lab, entry, play

JOBS = "/apis/batch/v1/namespaces/ada/jobs"
PODS = "/api/v1/namespaces/ada/pods"
MERGE = "application/merge-patch+json"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "big", "uid": "u", "controller": True}


def pod(metadata: Document | None = None, **spec: Any) -> Document:
    container = {"name": "main", "command": ["true"]}
    named = {"name": "x", **(metadata or {})}
    return {"metadata": named, "spec": {"containers": [container], **spec}}


def job(
    metadata: Document | None = None, template: Document | None = None, **spec: Any
) -> Document:
    made = pod({**(template or {})}, restartPolicy="Never")
    made["metadata"].pop("name")
    made["spec"] |= spec.pop("pod", {})
    return {"metadata": {"name": "x", **(metadata or {})}, "spec": {"template": made, **spec}}


FORBIDDEN: dict[str, tuple[Document, str]] = {
    "a pod that says it belongs to a job": (
        pod({"ownerReferences": [OWNER]}),
        "metadata.ownerReferences",
    ),
    "a job that says it belongs to a job": (
        job({"ownerReferences": [OWNER]}),
        "metadata.ownerReferences",
    ),
    "a pod that says it belongs to a cron job": (
        pod({"ownerReferences": [{**OWNER, "kind": "CronJob"}]}),
        "metadata.ownerReferences",
    ),
    "a pod with a node": (pod(nodeName="here"), "spec.nodeName"),
    "a job whose pods have a node": (job(pod={"nodeName": "here"}), "spec.template.spec.nodeName"),
    "another scheduler": (pod(schedulerName="mine"), "spec.schedulerName"),
    "another scheduler in a job": (
        job(pod={"schedulerName": "mine"}),
        "spec.template.spec.schedulerName",
    ),
    "a prebuilt workload": (
        job({"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}),
        "metadata.labels[kueue.x-k8s.io/prebuilt-workload-name]",
    ),
    "a number of one's own": (job({"labels": {"makeway.dev/id": "1"}}), "makeway.dev/id"),
    "a workload that is somebody else's": (
        pod({"annotations": {"kueue.x-k8s.io/workload": "w"}}),
        "metadata.annotations[kueue.x-k8s.io/workload]",
    ),
    "the same in a template": (
        job(template={"annotations": {"kueue.x-k8s.io/workload": "w"}}),
        "spec.template.metadata.annotations[kueue.x-k8s.io/workload]",
    ),
    "what only the queue says": (
        pod({"labels": {"kueue.x-k8s.io/managed": "false"}}),
        "metadata.labels[kueue.x-k8s.io/managed]",
    ),
    "a key of ours that there is not yet": (
        job({"annotations": {"makeway.dev/whatever-comes": "x"}}),
        "makeway.dev/whatever-comes",
    ),
    "a finalizer of ours": (
        job({"finalizers": ["kueue.x-k8s.io/resource-in-use"]}),
        "metadata.finalizers",
    ),
    "a high priority of pods": (pod(priorityClassName="high"), "spec.priorityClassName"),
    "a high priority in a job": (
        job(pod={"priorityClassName": "high"}),
        "spec.template.spec.priorityClassName",
    ),
    "the priority of the system": (
        job(pod={"priorityClassName": "system-node-critical"}),
        "spec.template.spec.priorityClassName",
    ),
    "a high priority by label": (
        job({"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}),
        "metadata.labels[kueue.x-k8s.io/priority-class]",
    ),
    "a class that is not there yet": (
        job({"labels": {"kueue.x-k8s.io/priority-class": "soon"}}),
        "metadata.labels[kueue.x-k8s.io/priority-class]",
    ),
    "a high preemption priority": (
        job({"annotations": {"makeway.dev/preemption-priority-class": "high"}}),
        "metadata.annotations[makeway.dev/preemption-priority-class]",
    ),
}


async def make_classes(lab: Lab) -> None:
    pods = "/apis/scheduling.k8s.io/v1/priorityclasses"
    work = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
    everyone = {"makeway.dev/for": "everyone"}
    for url, name, value, labels in (
        (pods, "high", 100, {}),
        (pods, "low", -5, {}),
        (work, "urgent", 1000, {}),
        (work, "brisk", 10, everyone),
        (work, "calm", -1, {}),
    ):
        made = {"metadata": {"name": name, "labels": labels}, "value": value}
        await lab.json(GRACE, "POST", url, made)


def url_of(document: Document) -> str:
    return JOBS if "template" in document["spec"] else PODS


def test_each_way_past_the_queue_is_refused_with_its_field(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await make_classes(lab)
        await lab.json(ADA, "GET", "/api")
        wrong = {}
        for what, (document, field) in FORBIDDEN.items():
            answer = await lab.send(ADA, "POST", url_of(document), document)
            assert isinstance(answer.body, bytes)
            if answer.code not in (403, 422) or field not in answer.body.decode():
                wrong[what] = answer.code, answer.body
        assert not wrong

    play(tmp_path, story)


def test_what_is_theirs_to_say_they_may_say(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await make_classes(lab)
        labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "brisk"}
        annotations = {"makeway.dev/hold": "true", "makeway.dev/submitted-by": "grace"}
        said = {"name": "a", "labels": labels, "annotations": annotations}
        made = await lab.json(ADA, "POST", JOBS, job(said))
        assert made["metadata"]["labels"]["makeway.dev/id"] == "1"
        assert made["metadata"]["annotations"]["makeway.dev/submitted-by"] == "ada"
        await lab.json(ADA, "POST", JOBS, job({"name": "b"}, pod={"priorityClassName": "low"}))
        calm = {"labels": {"kueue.x-k8s.io/priority-class": "calm"}}
        third = await lab.json(ADA, "POST", JOBS, job({"name": "c", **calm}))
        assert third["metadata"]["labels"]["makeway.dev/id"] == "3"

    play(tmp_path, story)


def test_a_cron_job_is_signed_and_a_job_may_be_made_from_it_by_hand(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        made_of = {"spec": job()["spec"]}
        cron = {"metadata": {"name": "c"}, "spec": {"schedule": "@yearly", "jobTemplate": made_of}}
        made = await lab.json(ADA, "POST", JOBS.replace("/jobs", "/cronjobs"), cron)
        assert made["metadata"]["annotations"]["makeway.dev/submitted-by"] == "ada"
        assert "makeway.dev/id" not in (made["metadata"].get("labels") or {})

        owner = {**OWNER, "kind": "CronJob", "name": "c", "uid": made["metadata"]["uid"]}
        by_hand = await lab.json(ADA, "POST", JOBS, job({"ownerReferences": [owner]}))
        assert by_hand["spec"]["suspend"]  # it waits in its queue like any other

    play(tmp_path, story)


def test_everything_of_people_waits_in_a_queue(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        made = await lab.json(ADA, "POST", JOBS, job(suspend=False))
        assert made["spec"]["suspend"] is True
        release = {"spec": {"suspend": False}}
        refused = await lab.json(ADA, "PATCH", f"{JOBS}/x", release, MERGE, code=403)
        assert "released by its queue only" in refused["message"]
        held = await lab.json(ADA, "POST", PODS, pod())
        assert held["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"labels": {"makeway.dev/id": "7"}}, "makeway.dev/id"),
        ({"labels": {"makeway.dev/id": None}}, "makeway.dev/id"),
        ({"annotations": {"makeway.dev/submitted-by": "bob"}}, "makeway.dev/submitted-by"),
        ({"annotations": {"makeway.dev/submitted-by": None}}, "makeway.dev/submitted-by"),
        ({"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}, "kueue.x-k8s.io/priority-class"),
        ({"ownerReferences": [OWNER]}, "metadata.ownerReferences"),
        ({"finalizers": ["kueue.x-k8s.io/resource-in-use"]}, "metadata.finalizers"),
    ],
)
def test_nor_later(tmp_path: Path, patch: Document, field: str) -> None:
    async def story(lab: Lab) -> None:
        await make_classes(lab)
        await lab.json(ADA, "POST", JOBS, job())
        changed = {"metadata": patch}
        refused = await lab.json(ADA, "PATCH", f"{JOBS}/x", changed, MERGE, code=403)
        assert field in refused["message"]
        await lab.json(ADA, "PATCH", f"{JOBS}/x", {"metadata": {"labels": {"a": "b"}}}, MERGE)

    play(tmp_path, story)


def test_who_has_the_verb_use_may_use_a_class(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await make_classes(lab)
        rule = {
            "verbs": ["use"],
            "apiGroups": ["kueue.x-k8s.io"],
            "resources": ["workloadpriorityclasses"],
            "resourceNames": ["urgent"],
        }
        role = {"metadata": {"name": "urgent"}, "rules": [rule]}
        await lab.json(GRACE, "POST", f"{ROLES}/clusterroles", role)
        binding = {
            "metadata": {"name": "urgent"},
            "roleRef": {"kind": "ClusterRole", "name": "urgent"},
            "subjects": [{"kind": "Group", "name": "vision"}],
        }
        await lab.json(GRACE, "POST", f"{ROLES}/clusterrolebindings", binding)
        urgent = {"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}
        await lab.json(ADA, "POST", JOBS, job(urgent))
        bobs = "/apis/batch/v1/namespaces/bob/jobs"
        await lab.json(BOB, "POST", bobs, job(urgent), code=403)

    play(tmp_path, story)


def test_memory_and_cpu_come_with_gpus_where_nobody_asks_for_them(tmp_path: Path) -> None:
    def asking(**resources: Any) -> Document:
        return {"containers": [{"name": "c", "command": ["true"], "resources": resources}]}

    async def resources_of(lab: Lab, name: str, **asked: Any) -> Any:
        made = await lab.json(ADA, "POST", JOBS, job({"name": name}, pod=asking(**asked)))
        [container] = made["spec"]["template"]["spec"]["containers"]
        return container["resources"]

    async def story(lab: Lab) -> None:
        two = {"nvidia.com/gpu": "2"}
        given = {**two, "cpu": "16", "memory": "128Gi"}
        assert await resources_of(lab, "a", limits=two) == {"limits": given, "requests": given}
        own = {**two, "memory": "1Gi"}
        found = await resources_of(lab, "b", limits=own, requests={"cpu": "1"})
        assert found == {"limits": {**own, "cpu": "16"}, "requests": {**own, "cpu": "16"}}
        more = {"cpu": "20", "memory": "200Gi"}
        assert (await resources_of(lab, "d", limits=two, requests=more))["limits"] == two
        assert await resources_of(lab, "c", requests={"cpu": "1"}) == {"requests": {"cpu": "1"}}
        pod = {"metadata": {"name": "p"}, "spec": asking(limits=two)}
        [container] = (await lab.json(ADA, "POST", PODS, pod))["spec"]["containers"]
        assert container["resources"]["limits"] == given

    play(tmp_path, story, people={"per_gpu": {"cpu": Fraction(8), "memory": Fraction(2**36)}})


def test_nothing_runs_in_a_namespace_without_an_account(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(GRACE, "POST", "/api/v1/namespaces", {"metadata": {"name": "shared"}})
        for namespace in ("shared", "default"):
            url = f"/apis/batch/v1/namespaces/{namespace}/jobs"
            refused = await lab.json(GRACE, "POST", url, job(), code=403)
            assert "belongs to no account" in refused["message"]

    play(tmp_path, story)


def test_whose_a_namespace_is_nobody_can_edit(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "GET", "/api")
        found = await lab.json(ADA, "GET", "/api/v1/namespaces/ada")
        assert found["metadata"]["annotations"] == {
            "makeway.dev/account": "ada",
            "makeway.dev/uid": "1001",
        }
        attempts: list[Document] = [
            {"makeway.dev/uid": "0"},
            {"makeway.dev/account": None},
            {"makeway.dev/account": "root", "makeway.dev/uid": "0"},
        ]
        for attempt in attempts:
            patch = {"metadata": {"annotations": attempt}}
            url = "/api/v1/namespaces/ada"
            refused = await lab.json(GRACE, "PATCH", url, patch, MERGE, code=403)
            assert "written by the server only" in refused["message"]
        forged = {"metadata": {"name": "n", "annotations": found["metadata"]["annotations"]}}
        await lab.json(GRACE, "POST", "/api/v1/namespaces", forged, code=403)
        labelled = {"metadata": {"labels": {"team": "vision"}}}
        await lab.json(GRACE, "PATCH", "/api/v1/namespaces/ada", labelled, MERGE)

    play(tmp_path, story)


def test_a_namespace_is_not_inherited(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "POST", JOBS, job())
        lab.now += 60
        del lab.accounts.entries[ADA]
        lab.accounts.entries[2001] = entry("ada", 2001)  # somebody new of the same name
        lab.accounts.entries[ADA] = entry("Dan", ADA)  # and somebody new with the old uid
        refused = await lab.json(2001, "GET", JOBS, code=403)
        assert (
            "belongs to the account ada with uid 1001, and ada has uid 2001" in (refused["message"])
        )
        await lab.json(ADA, "GET", JOBS, code=403)
        assert (await lab.json(ADA, "GET", "/api/v1/namespaces/u-1001"))["metadata"]["name"]
        await lab.json(GRACE, "POST", "/api/v1/namespaces", {"metadata": {"name": "carol"}})
        lab.accounts.entries[2002] = entry("carol", 2002)
        nobodys = await lab.json(2002, "GET", "/api", code=403)
        assert "belongs to no account" in nobodys["message"]

    play(tmp_path, story)


def test_so_many_unfinished_jobs_and_no_more(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        for name in ("a", "b"):
            await lab.json(ADA, "POST", JOBS, job({"name": name}))
        refused = await lab.json(ADA, "POST", JOBS, job({"name": "c"}), code=403)
        assert "ada has 2 of them that have not ended" in refused["message"]
        ended = [{"type": "Complete", "status": "True"}]
        status = {"status": {"conditions": ended, "startTime": "2023-11-14T22:13:20Z"}}
        status["status"]["completionTime"] = "2023-11-14T22:13:20Z"
        await lab.json(GRACE, "PATCH", f"{JOBS}/a/status", status, MERGE)
        await lab.json(ADA, "POST", JOBS, job({"name": "c"}))
        await lab.json(ADA, "POST", JOBS, job({"name": "d"}), code=403)
        await lab.json(ADA, "DELETE", f"{JOBS}/b?propagationPolicy=Background")
        await lab.json(ADA, "POST", JOBS, job({"name": "d"}))

    play(tmp_path, story, people={"unfinished_max": 2})


def test_holding_is_the_one_thing_that_people_say_of_a_workload(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "GET", "/api")
        url = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ada/workloads"
        template = {"spec": {"containers": [{"name": "main"}]}}
        pod_sets = [{"name": "main", "count": 1, "template": template}]
        made = {"metadata": {"name": "w"}, "spec": {"queueName": "q", "podSets": pod_sets}}
        await lab.json(GRACE, "POST", url, made)
        held = {"spec": {"active": False, "queueName": "other"}}
        answer = await lab.json(ADA, "PATCH", f"{url}/w/active", held, MERGE)
        assert (answer["spec"]["active"], answer["spec"]["queueName"]) == (False, "q")
        await lab.json(ADA, "PATCH", f"{url}/w", held, MERGE, code=403)
        await lab.json(BOB, "PATCH", f"{url}/w/active", held, MERGE, code=403)
        await lab.json(ADA, "PATCH", f"{url}/w/active", {"spec": {}}, MERGE, code=400)

    play(tmp_path, story)


# Handing rights on


def role(*rules: Document, name: str = "r") -> Document:
    return {"metadata": {"name": name}, "rules": list(rules)}


def bound(role: str, kind: str = "ClusterRole") -> Document:
    return {
        "metadata": {"name": f"{role}-{kind}".lower()},
        "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": "bob"}],
    }


WRITES_ROLES = {
    "verbs": ["create", "update", "patch"],
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["roles", "rolebindings", "clusterroles"],
}
READS_PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


async def let_write_roles(lab: Lab, *more: Document) -> None:
    """An admin lets ada write roles and bindings in her namespace."""
    await lab.json(ADA, "GET", "/api")
    await lab.json(GRACE, "POST", f"{ROLES}/clusterroles", role(WRITES_ROLES, *more, name="w"))
    binding = bound("w") | {"subjects": [{"kind": "User", "name": "ada"}]}
    await lab.json(GRACE, "POST", f"{ROLES}/namespaces/ada/rolebindings", binding)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (READS_PODS, 201),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}, 201),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/binding"]}, 403),
        ({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}, 403),
        ({"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"]}, 403),
        ({"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}, 403),
        (
            {
                "verbs": ["escalate"],
                "apiGroups": [WRITES_ROLES["apiGroups"][0]],
                "resources": ["roles"],
            },
            403,
        ),
    ],
)
def test_nobody_grants_what_he_does_not_have(tmp_path: Path, rule: Document, code: int) -> None:
    async def story(lab: Lab) -> None:
        await let_write_roles(lab)
        answer = await lab.send(ADA, "POST", f"{ROLES}/namespaces/ada/roles", role(rule))
        assert answer.code == code, answer.body

    play(tmp_path, story)


def test_only_admins_let_others_be_an_account(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        bindings = f"{ROLES}/namespaces/ada/rolebindings"
        await let_write_roles(lab)
        runs = {"verbs": ["create"], "apiGroups": ["batch"], "resources": ["jobs"]}
        await lab.json(ADA, "POST", f"{ROLES}/namespaces/ada/roles", role(runs))
        refused = await lab.json(ADA, "POST", bindings, bound("r", "Role"), code=403)
        assert "and so be the account: admins bind that" in refused["message"]
        await lab.json(ADA, "POST", bindings, bound("makeway-person"), code=403)
        await lab.json(ADA, "POST", bindings, bound("view"))
        assert (await lab.send(BOB, "GET", JOBS)).code == 200
        await lab.json(ADA, "POST", f"{ROLES}/namespaces/bob/rolebindings", bound("view"), code=403)
        await lab.json(ADA, "POST", f"{ROLES}/clusterrolebindings", bound("view"), code=403)

    play(tmp_path, story)


def test_who_may_bind_or_escalate_may(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        group = WRITES_ROLES["apiGroups"]
        binds = {"verbs": ["bind"], "apiGroups": group, "resources": ["clusterroles"]}
        names = {**binds, "resourceNames": ["makeway-person"]}
        more = {"verbs": ["escalate"], "apiGroups": group, "resources": ["roles"]}
        await let_write_roles(lab, names, more)
        bindings = f"{ROLES}/namespaces/ada/rolebindings"
        await lab.json(ADA, "POST", bindings, bound("makeway-person"))
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        await lab.json(ADA, "POST", f"{ROLES}/namespaces/ada/roles", role(everything))

    play(tmp_path, story)


def test_apply_creates_only_for_who_may_create(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        await let_write_roles(lab)
        patches = {"verbs": ["patch"], "apiGroups": ["batch"], "resources": ["jobs"]}
        await lab.json(GRACE, "POST", f"{ROLES}/clusterroles", role(patches, name="patcher"))
        await lab.json(GRACE, "POST", f"{ROLES}/namespaces/ada/rolebindings", bound("patcher"))
        applied = {"apiVersion": "batch/v1", "kind": "Job", **job()}
        url, kind = f"{JOBS}/x?fieldManager=t", "application/apply-patch+yaml"
        refused = await lab.json(BOB, "PATCH", url, applied, kind, code=403)
        assert "may change it but not create it" in refused["message"]
        await lab.json(ADA, "PATCH", url, applied, kind)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("kind", "document", "field"),
    [
        ("clusterroles", role({"apiGroups": [""], "resources": ["pods"]}), "rules[0].verbs"),
        ("clusterroles", role({"verbs": ["get"], "resources": ["pods"]}), "rules[0].apiGroups"),
        ("clusterroles", {"metadata": {"name": "a/b"}}, "metadata.name"),
        ("namespaces/ada/roles", role({"verbs": ["get"], "nonResourceURLs": ["/x"]}), "rules[0]"),
        ("clusterrolebindings", bound("r", "Role"), "roleRef.kind"),
        ("clusterrolebindings", bound(""), "roleRef.name"),
        (
            "clusterrolebindings",
            bound("r") | {"subjects": [{"kind": "Person", "name": "bob"}]},
            "subjects[0].kind",
        ),
    ],
)
def test_odd_roles_are_refused(tmp_path: Path, kind: str, document: Document, field: str) -> None:
    async def story(lab: Lab) -> None:
        await lab.json(ADA, "GET", "/api")
        refused = await lab.json(GRACE, "POST", f"{ROLES}/{kind}", document, code=422)
        assert field in refused["message"]

    play(tmp_path, story)
