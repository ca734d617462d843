"""translate manifests between versions of Kueue's API

Print manifests in another version of Kueue's API. Objects of other groups are
printed as they are. Needs no server.

examples:
  makeway convert -f old.yaml > new.yaml
  makeway convert -f queues.yaml --to v1beta1

exit codes:
  0  printed     1  something can't be translated     2  a file can't be read
"""

from __future__ import annotations

import argparse
import sys

from makeway.api import versions
from makeway.api.manifests import write_yaml
from makeway.cli.apply import add_files, read_files

VERSIONS = (versions.HUB_VERSION, "v1beta1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument(
        "--to", choices=VERSIONS, default=VERSIONS[0], help=f"version (default: {VERSIONS[0]})"
    )


def run(arguments: argparse.Namespace) -> int:
    documents, code = [], 0
    for manifest in read_files(arguments.filename):
        converted = versions.to_hub(manifest.document)
        for error in converted.errors:
            print(f"makeway: {manifest.locate(error.path)}: {error}", file=sys.stderr)
            code = 1
        documents.append(versions.from_hub(converted.document, arguments.to))
    if not code:
        print(write_yaml(*documents), end="")
    return code
