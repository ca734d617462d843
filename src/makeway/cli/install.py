"""print, or apply, what a Kubernetes cluster needs to run Makeway

Print the objects by which Makeway runs in a Kubernetes cluster: the kinds of
queues, a controller of two replicas with no more rights than it uses, and
admission policies by which a Job or pod that names a queue waits for it. With --apply
they are brought to the cluster. With --replace-kueue Makeway takes Kueue's place:
queues, Workloads and running Jobs stay as they are.

examples:
  makeway install | kubectl apply --server-side -f -
  makeway install --image registry.example/makeway@sha256:0123... --apply
  makeway install --replace-kueue            # say what would be done
  makeway install --replace-kueue --apply

exit codes:
  0  printed or done     1  the server refused, or it could not go on
  2  no server, unreadable file
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from makeway.api.manifests import write_yaml
from makeway.cli import connect
from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.up import read_configuration
from makeway.client import Client
from makeway.client.client import Document
from makeway.deploy.applying import InstallFailed, apply_all, policies_known, put_definitions
from makeway.deploy.installation import Site, controller, crds, installation, namespace, policies
from makeway.deploy.kueue_replacement import find_kueue, replace_kueue
from makeway.deploy.policies import MUTATING_SINCE, VALIDATING_SINCE, KubeVersion

Part = Callable[[Client, Site, argparse.Namespace], Awaitable[None]]

_VERSION = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?([-+].*)?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--image",
        default=Site().image,
        help="of the controller, built with the Containerfile; best by its digest, as "
        "registry.example/makeway@sha256:... (default: %(default)s)",
    )
    parser.add_argument(
        "--no-placing",
        action="store_true",
        help="queues only: pods get their nodes from others, and the controller no rights for that",
    )
    parser.add_argument(
        "--expose-metrics",
        action="store_true",
        help="let pods of namespaces with the label makeway.dev/metrics=allowed ask for metrics "
        "and explanations (default: kubectl port-forward only)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="Configuration for the controller"
    )
    parser.add_argument(
        "--replace-kueue",
        action="store_true",
        help="move in where Kueue was; without --apply only say what would be done",
    )
    parser.add_argument("--apply", action="store_true", help="do it, instead of printing")
    add_cluster(parser)


def add_place(parser: argparse.ArgumentParser) -> None:
    """What says where Makeway is, and how it is printed."""
    parser.add_argument(
        "-n",
        "--namespace",
        default=Site().namespace,
        help="of the controller (default: %(default)s)",
    )
    parser.add_argument(
        "--kube-version",
        type=kube_version,
        metavar="VERSION",
        help=f"of the cluster, as 1.36 (default: {MUTATING_SINCE}; with --apply the server's own)",
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="(default: yaml)"
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="of the cluster (default: $KUBECONFIG, else ~/.kube/config)",
    )
    parser.add_argument("--context", default="", help="of the kubeconfig (default: its current)")


def kube_version(text: str) -> KubeVersion:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write a version as {MUTATING_SINCE}")
    return KubeVersion(int(match[1]), int(match[2]))


def run(arguments: argparse.Namespace) -> int:
    site = replace(
        site_of(arguments),
        image=arguments.image,
        configuration=_configuration(arguments),
        is_placing=not arguments.no_placing,
        exposes_metrics=arguments.expose_metrics,
    )
    if arguments.apply or arguments.replace_kueue:
        return converse(arguments, site, _replace if arguments.replace_kueue else _install)
    _warn(site)
    show(installation(site), arguments.output)
    return 0


def site_of(arguments: argparse.Namespace) -> Site:
    if not connect.is_name(arguments.namespace):
        raise UsageError(f"{arguments.namespace!r} can't be the name of a namespace")
    return Site(namespace=arguments.namespace, kube=arguments.kube_version or MUTATING_SINCE)


def _configuration(arguments: argparse.Namespace) -> str:
    path: Path | None = arguments.config
    if path is None:
        return ""
    read_configuration(path.parent, path)  # UsageError if the file has errors
    return path.read_text(encoding="utf-8")


def show(documents: list[Document], output: str) -> None:
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": documents}
        print(json.dumps(listed, indent=2))
    else:
        print(write_yaml(*documents), end="")


def _warn(site: Site) -> None:
    if not site.has_digest:
        say(
            f"image {site.image} is named by a tag, which may come to mean another one; name it by "
            "its digest, --image NAME@sha256:..."
        )
    if site.kube < MUTATING_SINCE:
        say(
            f"Kubernetes before {MUTATING_SINCE} has no MutatingAdmissionPolicy: a queued Job "
            "may start pods before the controller suspends it, and pods without a Job are queued "
            "only if whoever creates them gives them the gate"
        )
    if site.kube < VALIDATING_SINCE:
        say(
            f"Kubernetes before {VALIDATING_SINCE} has no ValidatingAdmissionPolicy: users can "
            "start queued Jobs and pods by hand"
        )


def say(text: str) -> None:
    print(f"makeway: {text}", file=sys.stderr)


def tell(text: str) -> None:
    print(text, flush=True)


# On a server


def converse(arguments: argparse.Namespace, site: Site, part: Part) -> int:
    """Do a part of it with the cluster that kubectl would talk to."""
    arguments.data_dir = None
    if arguments.kubeconfig is None:
        named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
        arguments.kubeconfig = Path(named[0]) if named else Path.home() / ".kube" / "config"

    async def story(client: Client, _: str) -> int:
        seen = arguments.kube_version or await policies_known(client)
        try:
            await part(client, replace(site, kube=seen), arguments)
        except InstallFailed as stuck:
            raise RequestRefused(
                f"{stuck}; what was done so far stays, and it can be repeated"
            ) from None
        connect.show_warnings(client)
        return 0

    return connect.converse(arguments, story)


async def _install(client: Client, site: Site, arguments: argparse.Namespace) -> None:
    if (await find_kueue(client)).is_installed:
        raise RequestRefused(
            "this cluster has Kueue in it;\n"
            "  `makeway install --replace-kueue` says how Makeway would take its place"
        )
    _warn(site)
    await apply_all(client, (namespace(site),), tell)
    await put_definitions(client, crds(), tell)
    await apply_all(client, (*policies(site), *controller(site)), tell)


async def _replace(client: Client, site: Site, arguments: argparse.Namespace) -> None:
    kueue = await find_kueue(client)
    if not kueue.definitions:
        raise RequestRefused("there is nothing of Kueue's here; leave --replace-kueue out")
    _warn(site)
    for number, step in enumerate(kueue.steps(), start=1):
        tell(f"{number:2}. {step}")
    for warning in kueue.warnings():
        say(warning)
    if not arguments.apply:
        tell("Nothing was done. With --apply it is done, in this order; what runs goes on.")
        return
    for note in await replace_kueue(client, kueue, site, tell):
        say(note)
