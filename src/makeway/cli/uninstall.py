"""print, or delete, what Makeway has in a Kubernetes cluster

Print what to delete so that Makeway is gone from a cluster, in this order: the
admission policies, the controller, its rights; with --crds the kinds of queues,
and every queue with them. With --apply it is deleted. Jobs that run go on, and
Jobs that wait stay suspended until somebody starts them, as pods that wait stay gated.

examples:
  makeway uninstall | kubectl delete --ignore-not-found -f -
  makeway uninstall --apply
  makeway uninstall --crds --apply

exit codes:
  0  printed or done     1  the server refused, or it could not go on     2  no server
"""

from __future__ import annotations

import argparse

from makeway.cli.install import add_cluster, add_place, converse, say, show, site_of, tell
from makeway.client import Client
from makeway.deploy.installation import Site
from makeway.deploy.uninstallation import removal, uninstall

LET_GO = """\
Queues, flavors, Workloads and queued pods carry a finalizer that nobody takes away any more;
when the controller is gone, `makeway uninstall --apply` does it, or:
  kubectl get workloads.kueue.x-k8s.io -A --no-headers |
  while read namespace name rest; do kubectl patch workloads.kueue.x-k8s.io \\
    -n $namespace $name --type=merge -p '{"metadata":{"finalizers":null}}'; done
  kubectl get clusterqueues.kueue.x-k8s.io,resourceflavors.kueue.x-k8s.io -o name |
  while read name; do kubectl patch $name --type=merge \\
    -p '{"metadata":{"finalizers":null}}'; done
  kubectl get pods -A -l kueue.x-k8s.io/managed=true --no-headers |
  while read namespace name rest; do kubectl patch pods \\
    -n $namespace $name --type=merge -p '{"metadata":{"finalizers":null}}'; done"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--crds", action="store_true", help="the kinds too: all queues and Workloads go with them"
    )
    parser.add_argument("--apply", action="store_true", help="do it, instead of printing")
    add_cluster(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.crds:
        say("all queues, flavors and Workloads are deleted with their kinds; Jobs stay")
    if arguments.apply:
        return converse(arguments, site_of(arguments), _move_out)
    say(LET_GO)
    say(f"the namespace {arguments.namespace} stays")
    show(removal(site_of(arguments), has_crds=arguments.crds), arguments.output)
    return 0


async def _move_out(client: Client, site: Site, arguments: argparse.Namespace) -> None:
    await uninstall(client, site, tell, has_crds=arguments.crds)
    say(f"the namespace {site.namespace} stays; Jobs that wait stay suspended, pods gated")
