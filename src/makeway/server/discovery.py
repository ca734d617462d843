"""Which kinds there are, in both forms that clients ask for."""

from collections.abc import Iterable, Mapping
from typing import Any

from makeway.api.kinds import ALIASES, NAMESPACES, PODS, RESOURCES, WORKLOADS, Resource
from makeway.server import errors, usage
from makeway.server.messages import Request, Response, encode, expect_plain, json_response

VERSION = "v1.37.1"  # of the Kubernetes whose answers these are compared with
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")
# What can only be created: questions, not objects.
REVIEWS = tuple(
    Resource(f"{group}/v1", f"{kind.lower()}s", kind, is_namespaced=False, has_status=False)
    for group, kind in (
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authentication.k8s.io", "SelfSubjectReview"),
    )
)
ANSWERS = (*REVIEWS, *usage.RESOURCES)  # what is no object that is kept
# Subresource: kind of its body (group, version, kind) and verbs.
_POD_SUBRESOURCES = {
    "attach": (("", "v1", "PodAttachOptions"), ("create", "get")),
    "binding": (("", "v1", "Binding"), ("create",)),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
    "exec": (("", "v1", "PodExecOptions"), ("create", "get")),
    "log": (("", "v1", "Pod"), ("get",)),
    "portforward": (("", "v1", "PodPortForwardOptions"), ("create", "get")),
}


def answer(request: Request, segments: list[str]) -> Response:
    """What is served: the version, the groups, and what is in each of them."""
    match segments:
        case ["version"]:
            return json_response(_version())
        case ["api"]:
            address = request.headers.get("host", "")
            return _in_either_form(request, [""], api_versions(address))
        case ["apis"]:
            groups = [group for group in group_versions() if group]
            return _in_either_form(request, groups, group_list())
        case ["api", version] if version in group_versions()[""]:
            return _plain(request, resource_list("", version))
        case ["apis", name] if name and name in group_versions():
            return _plain(request, {"kind": "APIGroup", "apiVersion": "v1", **group(name)})
        case ["apis", name, version] if version in group_versions().get(name, ()):
            return _plain(request, resource_list(name, version))
        case _:
            raise errors.no_such_path()


def _in_either_form(request: Request, groups: list[str], legacy: Mapping[str, Any]) -> Response:
    accepted = request.headers.get("accept", "").replace(" ", "")
    for version in ("v2", "v2beta1"):
        if f"g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" in accepted:
            return Response(
                body=encode(aggregated(groups, version)), content_type=AGGREGATED.format(version)
            )
    return _plain(request, legacy)


def _plain(request: Request, document: Mapping[str, Any]) -> Response:
    expect_plain(request)
    return json_response(document)


def verbs_of(resource: Resource) -> tuple[str, ...]:
    """What can be asked of a kind; namespaces go one by one, since so much goes with each."""
    if resource in REVIEWS:
        return ("create",)
    if resource in usage.RESOURCES:
        return ("get", "list")
    return tuple(v for v in _VERBS if v != "deletecollection" or resource is not NAMESPACES)


def subresources(resource: Resource) -> dict[str, tuple[tuple[str, str, str], tuple[str, ...]]]:
    found: dict[str, tuple[tuple[str, str, str], tuple[str, ...]]] = {}
    own = (resource.group, resource.versions[0], resource.kind)
    if resource is PODS:
        found |= _POD_SUBRESOURCES
    if resource is NAMESPACES:
        found["finalize"] = (own, ("update",))
    if resource.has_status:
        found["status"] = (own, STATUS_VERBS)
    if resource is WORKLOADS:
        found["explanation"] = (("makeway.dev", "v1", "Explanation"), ("get",))
        found["forecast"] = (("makeway.dev", "v1", "Forecast"), ("get",))
        found["active"] = (own, ("patch",))
    return found


def group_versions() -> dict[str, list[str]]:
    """Groups with their versions, the preferred one first; the core group is the empty one."""
    found: dict[str, list[str]] = {}
    for resource in (*RESOURCES, *ALIASES, *ANSWERS):
        versions = found.setdefault(resource.group, [])
        versions += [version for version in resource.versions if version not in versions]
    return found


def served(group: str, version: str) -> list[Resource]:
    everything = (*RESOURCES, *ALIASES, *ANSWERS)
    return [r for r in everything if r.group == group and version in r.versions]


def _words(resource: Resource) -> dict[str, list[str]]:
    """What both forms say of a kind alike."""
    words = {"verbs": verbs_of(resource), "shortNames": resource.short_names}
    words["categories"] = resource.categories
    return {key: list(value) for key, value in words.items() if value}


# Aggregated


def aggregated(groups: Iterable[str], api_version: str) -> dict[str, Any]:
    known = group_versions()
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{api_version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated(r, version) for r in served(group, version)],
                        "freshness": "Current",
                    }
                    for version in known[group]
                ],
            }
            for group in groups
        ],
    }


def _kind(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}


def _aggregated(resource: Resource, version: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, version, resource.kind),
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        **_words(resource),
    }
    inner = [
        {
            "subresource": name,
            "responseKind": _kind(group, version if group == resource.group else v, kind),
            "verbs": list(verbs),
        }
        for name, ((group, v, kind), verbs) in subresources(resource).items()
    ]
    if inner:
        entry["subresources"] = inner
    return entry


# Legacy


def api_versions(address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list() -> dict[str, Any]:
    groups = [group(name) for name in group_versions() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(name: str) -> dict[str, Any]:
    found = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in group_versions()[name]
    ]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def resource_list(group_name: str, version: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    for resource in served(group_name, version):
        entry: dict[str, Any] = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.is_namespaced,
            "kind": resource.kind,
            **_words(resource),
        }
        entries.append(entry)
        for name, ((sub_group, sub_version, kind), verbs) in subresources(resource).items():
            inner = {
                "name": f"{resource.plural}/{name}",
                "singularName": "",
                "namespaced": resource.is_namespaced,
                "kind": kind,
                "verbs": list(verbs),
            }
            if sub_group != resource.group:
                inner |= {"group": sub_group, "version": sub_version}
            entries.append(inner)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_name}/{version}" if group_name else version,
        "resources": entries,
    }


def _version() -> dict[str, str]:
    _, major, minor = VERSION.rpartition(".")[0].replace("v", ".").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "makeway",
        "platform": "",
    }
