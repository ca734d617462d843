"""Make the package data of the API server: schemas and protobuf tables of Kubernetes' own kinds.

Takes the facts (names, types, merge keys, field numbers) from the published Go modules of
Kubernetes and leaves the prose behind. Run by hand when the version is raised:

    python tools/make_schemas.py
"""

import gzip
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

VERSION = "37.1"
TARGET = Path(__file__).resolve().parents[1] / "src/makeway/server/data"
SPECS = (
    "api__v1",
    "apis__batch__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__policy__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__coordination.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__authentication.k8s.io__v1",
    "apis__rbac.authorization.k8s.io__v1",
)
ROOTS = (
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Endpoints",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.core.v1.Namespace",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.batch.v1.CronJob",
    "io.k8s.api.batch.v1.Job",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.policy.v1.PodDisruptionBudget",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.scheduling.v1.PriorityClass",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "io.k8s.api.authentication.v1.SelfSubjectReview",
    "io.k8s.api.rbac.v1.ClusterRole",
    "io.k8s.api.rbac.v1.ClusterRoleBinding",
    "io.k8s.api.rbac.v1.Role",
    "io.k8s.api.rbac.v1.RoleBinding",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
)
# Fields of young features that nobody here acts on: unknown fields are told, ignored ones are not.
NOT_SERVED = {
    "io.k8s.api.batch.v1.JobSpec": ("scheduling",),
    "io.k8s.api.core.v1.Container": ("restartPolicyRules",),
    "io.k8s.api.core.v1.EphemeralContainer": ("restartPolicyRules",),
    "io.k8s.api.core.v1.NodeSpec": ("podPreemptionPolicy",),
    "io.k8s.api.core.v1.PodSpec": ("evictionResponders", "hostnameOverride"),
}
# Fields whose zero is a value, which protobuf doesn't tell from absence.
REQUIRED = {"io.k8s.api.scheduling.v1.PriorityClass": ["value"]}
REFERENCE = "#/components/schemas/"
_FIELD = re.compile(
    r"^\s*(?:(optional|repeated|required)\s+)?(map<\w+,\s*[.\w]+>|[.\w]+)\s+(\w+)\s*=\s*(\d+);"
)


def fetch(module: str, version: str) -> zipfile.ZipFile:
    """A published module, by the Go client."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return zipfile.ZipFile(json.loads(answer.stdout)["Zip"])


def pruned(node: Any) -> Any:
    """The same schema without prose; `allOf` around a single reference is only there for prose."""
    if isinstance(node, list):
        return [pruned(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {}
    for key, value in node.items():
        if key == "description" and isinstance(value, str):
            continue
        if key == "properties":
            result[key] = {name: pruned(schema) for name, schema in value.items()}
        else:
            result[key] = pruned(value)
    if len(result.get("allOf", ())) == 1:
        (inner,) = result.pop("allOf")
        # Go's zero value as a "default" says nothing.
        result.pop("default", None)
        result.update(inner)
    if result.get("default") in ("", 0, {}, False):
        result.pop("default")
    return result


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in references(item)]
    if isinstance(node, dict):
        found = [found for item in node.values() for found in references(item)]
        if isinstance(node.get("$ref"), str):
            found.append(node["$ref"].removeprefix(REFERENCE))
        return found
    return []


def schemas_of(kubernetes: zipfile.ZipFile) -> dict[str, Any]:
    everything: dict[str, Any] = {}
    for spec in SPECS:
        name = f"k8s.io/kubernetes@v1.{VERSION}/api/openapi-spec/v3/{spec}_openapi.json"
        everything.update(json.loads(kubernetes.read(name))["components"]["schemas"])
    kept: dict[str, Any] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if name not in kept:
            kept[name] = pruned(everything[name])
            if name in REQUIRED:
                kept[name]["required"] = REQUIRED[name]
            for field in NOT_SERVED.get(name, ()):
                del kept[name]["properties"][field]
            if "x-kubernetes-group-version-kind" in kept[name]:
                kinds = kept[name]["x-kubernetes-group-version-kind"]
                kept[name]["x-kubernetes-group-version-kind"] = kinds[:1]
            todo += references(kept[name])
    return dict(sorted(kept.items()))


def messages_of(modules: list[zipfile.ZipFile], schemas: dict[str, Any]) -> dict[str, Any]:
    """Message name -> field number -> [JSON name, type, is repeated, is written inline]."""
    raw: dict[str, dict[str, tuple[str, str, bool]]] = {}
    for module in modules:
        for path in module.namelist():
            if path.endswith("/generated.proto"):
                read_proto(module.read(path).decode(), raw)
    kept: dict[str, Any] = {}
    todo = [to_proto(root) for root in ROOTS]
    while todo:
        message = todo.pop()
        if message in kept or message not in raw:
            continue
        known = schemas.get(to_openapi(message), {}).get("properties")
        kept[message] = {}
        for number, (name, kind, is_repeated) in raw[message].items():
            # Go embeds this struct: nested in protobuf, inline in JSON.
            is_inline = known is not None and name not in known and kind in raw
            kept[message][number] = [name, kind, int(is_repeated), int(is_inline)]
            todo += re.findall(r"k8s\.io\.[\w.]+", kind)
    return dict(sorted(kept.items()))


def to_proto(name: str) -> str:
    return "k8s.io." + name.removeprefix("io.k8s.")


def to_openapi(name: str) -> str:
    return "io.k8s." + name.removeprefix("k8s.io.")


def read_proto(text: str, raw: dict[str, dict[str, tuple[str, str, bool]]]) -> None:
    found = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    assert found is not None
    package, message = found[1], ""
    for line in text.splitlines():
        if opened := re.match(r"message (\w+) \{", line):
            message = f"{package}.{opened[1]}"
            raw[message] = {}
        elif message and (field := _FIELD.match(line)):
            label, kind, name, number = field.groups()
            raw[message][number] = (name, qualified(kind, package), label == "repeated")


def qualified(kind: str, package: str) -> str:
    if mapped := re.fullmatch(r"map<(\w+),\s*([.\w]+)>", kind):
        return f"map<{qualified(mapped[2], package)}>"
    kind = kind.removeprefix(".")
    return kind if "." in kind or kind[0].islower() else f"{package}.{kind}"


def write(name: str, data: Any) -> None:
    text = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    TARGET.mkdir(exist_ok=True)
    (TARGET / name).write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{name}: {len(text)} bytes, {(TARGET / name).stat().st_size} compressed")


def main() -> int:
    kubernetes = fetch("k8s.io/kubernetes", f"v1.{VERSION}")
    modules = [fetch(f"k8s.io/{name}", f"v0.{VERSION}") for name in ("api", "apimachinery")]
    schemas = schemas_of(kubernetes)
    write("schemas.json.gz", schemas)
    write("protobuf.json.gz", messages_of(modules, schemas))
    return 0


if __name__ == "__main__":
    sys.exit(main())
