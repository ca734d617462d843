"""Who may do what, as one table: account by verb by kind by namespace.

Each cell is asked twice: by the request itself, which is answered with 403 or not, and by a self
access review, which is what `kubectl auth can-i` shows. Both have to say what the table says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.harness.people import ADA, BOB, GRACE, Lab, play

VERBS = {
    "g": ("GET", "get"),
    "l": ("GET", "list"),
    "w": ("GET", "watch"),
    "c": ("POST", "create"),
    "u": ("PUT", "update"),
    "p": ("PATCH", "patch"),
    "d": ("DELETE", "delete"),
    "D": ("DELETE", "deletecollection"),
}
# What ada may in her own namespace, in bob's, and (kinds of namespaces) in all of them at once;
# what bob may in ada's, who has let him look. Admins may everything.
TABLE = """
kind                                      own        other   all   let-look
batch/v1/jobs                             glwcupdD   -       -     glw
batch/v1/jobs/status                      g          -       -     g
batch/v1/jobs/attempts                    g          -       -     g
batch/v1/jobs/log                         gd         -       -     g
batch/v1/cronjobs                         glwcupdD   -       -     glw
v1/pods                                   glwcdD     -       -     glw
v1/pods/log                               g          -       -     g
v1/pods/exec                              gc         -       -     -
v1/pods/attach                            gc         -       -     -
v1/pods/portforward                       gc         -       -     -
v1/pods/binding                           -          -       -     -
v1/pods/eviction                          -          -       -     -
v1/pods/status                            g          -       -     g
v1/configmaps                             glwcupdD   -       -     glw
v1/secrets                                glwcupdD   -       -     -
v1/services                               glwcupdD   -       -     glw
v1/services/status                        -          -       -     -
discovery.k8s.io/v1/endpointslices        glw        -       -     glw
v1/events                                 glw        -       -     glw
events.k8s.io/v1/events                   glw        -       -     glw
v1/limitranges                            glw        -       -     glw
kueue.x-k8s.io/v1beta2/localqueues        glw        -       -     glw
kueue.x-k8s.io/v1beta2/localqueues/status g          -       -     g
kueue.x-k8s.io/v1beta2/workloads          glw        -       -     glw
kueue.x-k8s.io/v1beta2/workloads/status   g          -       -     g
kueue.x-k8s.io/v1beta2/workloads/active   p          -       -     -
kueue.x-k8s.io/v1beta2/workloads/explanation g       -       -     g
kueue.x-k8s.io/v1beta2/workloads/forecast g          -       -     g
kueue.x-k8s.io/v1beta1/workloads          glw        -       -     glw
visibility.kueue.x-k8s.io/v1beta2/localqueues/pendingworkloads g - -  g
visibility.makeway.dev/v1/jobs            l          l       l     l
visibility.makeway.dev/v1/prospects       c          -       -     -
makeway.dev/v1/forecasts                  l          -       -     l
makeway.dev/v1/gangs                      -          -       -     -
scheduling.k8s.io/v1alpha3/podgroups      -          -       -     -
policy/v1/poddisruptionbudgets            -          -       -     -
coordination.k8s.io/v1/leases             -          -       -     -
rbac.authorization.k8s.io/v1/roles        -          -       -     -
rbac.authorization.k8s.io/v1/rolebindings -          -       -     -
"""
CLUSTER_TABLE = """
kind                                            everybody
v1/nodes                                        glw
v1/nodes/status                                 -
v1/namespaces                                   -
kueue.x-k8s.io/v1beta2/clusterqueues            glw
kueue.x-k8s.io/v1beta2/clusterqueues/status     -
visibility.kueue.x-k8s.io/v1beta2/clusterqueues/pendingworkloads -
kueue.x-k8s.io/v1beta2/cohorts                  glw
makeway.dev/v1/usage                            l
kueue.x-k8s.io/v1beta2/resourceflavors          glw
kueue.x-k8s.io/v1beta2/admissionchecks          glw
kueue.x-k8s.io/v1beta2/workloadpriorityclasses  glw
scheduling.k8s.io/v1/priorityclasses            glw
node.k8s.io/v1/runtimeclasses                   -
rbac.authorization.k8s.io/v1/clusterroles       -
rbac.authorization.k8s.io/v1/clusterrolebindings -
"""
PATHS = {
    "/": "ag",
    "/api": "ag",
    "/apis/batch/v1": "ag",
    "/openapi/v3": "ag",
    "/version": "ag",
    "/tokens": "ag",
    "/grants": "ag",
    "/audit": "g",
    "/diff": "g",
    "/metrics": "g",
    "/backup": "",
    "/something": "g",
}


class Cell(NamedTuple):
    who: int
    verb: str  # a letter
    kind: str  # version first: batch/v1/jobs/status
    namespace: str
    is_allowed: bool

    @property
    def group(self) -> str:
        return self._split[0]

    @property
    def _split(self) -> tuple[str, str, str]:
        """Group, version, and the kind with its subresource."""
        first, _, rest = self.kind.partition("/")
        if first == "v1":
            return "", first, rest
        version, _, kind = rest.partition("/")
        return first, version, kind

    @property
    def url(self) -> str:
        group, version, kind = self._split
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        where = f"/namespaces/{self.namespace}" if self.namespace else ""
        plural, _, part = kind.partition("/")
        is_one = bool(part) or self.verb in "gupd"
        return f"{root}{where}/{plural}" + ("/x" if is_one else "") + (f"/{part}" if part else "")

    @property
    def review(self) -> dict[str, object]:
        plural, _, part = self._split[2].partition("/")
        asked = {"verb": VERBS[self.verb][1], "group": self.group, "resource": plural}
        asked |= {"subresource": part, "namespace": self.namespace}
        is_one = bool(part) or self.verb in "gupd"
        return {"spec": {"resourceAttributes": {**asked, "name": "x" if is_one else ""}}}


def rows(table: str) -> Iterator[list[str]]:
    for line in table.strip().splitlines()[1:]:
        yield line.split()


def cells() -> Iterator[Cell]:
    for kind, own, other, everywhere, seen in rows(TABLE):
        # A part of an object is got, changed or made; it isn't listed, and has no collection.
        verbs = "gcupd" if kind.count("/") > (1 if kind.startswith("v1/") else 2) else "glwcupdD"
        for verb in verbs:
            yield Cell(ADA, verb, kind, "ada", verb in own)
            yield Cell(ADA, verb, kind, "bob", verb in other)
            yield Cell(ADA, verb, kind, "default", verb in other)
            yield Cell(BOB, verb, kind, "ada", verb in seen)
            yield Cell(GRACE, verb, kind, "ada", True)
            if verb in "lwD" and kind.count("/") == (1 if kind.startswith("v1/") else 2):
                yield Cell(ADA, verb, kind, "", verb in everywhere)
    for kind, everybody in rows(CLUSTER_TABLE):
        is_part = kind.count("/") > (1 if kind.startswith("v1/") else 2)
        for verb in "gcupd" if is_part else "glwcupdD":
            yield Cell(ADA, verb, kind, "", verb in everybody)
            yield Cell(GRACE, verb, kind, "", True)


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def let_look(lab: Lab) -> None:
    """Ada lets bob look at what is hers."""
    binding = {
        "metadata": {"name": "bob-looks"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    url = "/apis/rbac.authorization.k8s.io/v1/namespaces/ada/rolebindings"
    await lab.json(GRACE, "POST", url, binding)


def test_the_table_holds_for_requests_and_for_reviews(tmp_path: Path) -> None:
    asked = list(cells())
    assert len(asked) > 800

    async def story(lab: Lab) -> None:
        for who in (ADA, BOB, GRACE):
            await lab.json(who, "GET", "/api")  # has their namespaces made
        await let_look(lab)
        wrong = []
        for cell in asked:
            method, _ = VERBS[cell.verb]
            url = f"{cell.url}?watch=true" if cell.verb == "w" else cell.url
            response = await lab.send(cell.who, method, url, {})
            if not isinstance(response.body, bytes):
                await response.body.aclose()  # type: ignore[attr-defined]
            review = await lab.json(cell.who, "POST", REVIEWS, cell.review)
            found = response.code != 403, review["status"]["allowed"]
            if found != (cell.is_allowed, cell.is_allowed):
                wrong.append((cell, response.code, found[1]))
        assert not wrong, wrong[:20]

    play(tmp_path, story, people={"requests_per_s": 1e6})


def test_paths_that_are_no_objects(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        for path, letters in PATHS.items():
            for who, letter in ((ADA, "a"), (GRACE, "g")):
                found = (await lab.send(who, "GET", path)).code
                assert (found != 403) == (letter in letters or who == GRACE), (path, who, found)
        assert (await lab.send(ADA, "POST", "/backup", {"path": "/tmp/x"})).code == 403

    play(tmp_path, story)


def test_a_refusal_is_in_the_words_of_kubernetes(tmp_path: Path) -> None:
    async def story(lab: Lab) -> None:
        one = await lab.json(ADA, "GET", "/apis/batch/v1/namespaces/bob/jobs/x", code=403)
        assert one["message"] == (
            'jobs.batch "x" is forbidden: User "ada" cannot get resource "jobs" in API group '
            '"batch" in the namespace "bob"'
        )
        assert (one["reason"], one["details"]) == (
            "Forbidden",
            {"name": "x", "group": "batch", "kind": "jobs"},
        )
        some = await lab.json(ADA, "GET", "/api/v1/pods", code=403)
        assert some["message"] == (
            'pods is forbidden: User "ada" cannot list resource "pods" in API group "" at the '
            "cluster scope"
        )
        path = await lab.json(ADA, "GET", "/metrics", code=403)
        assert path["message"] == 'forbidden: User "ada" cannot get path "/metrics"'

    play(tmp_path, story)
