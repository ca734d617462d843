"""copy files to or from where a job runs

Copy a file or a folder out of the place where a job runs, or into it; one of the two
is written JOB:PATH. A path that doesn't begin with / counts from the job's working
directory. As with `cp -r`, what is copied to a folder that is there goes into it. It
needs `tar` there.

examples:
  makeway cp 12:results/model.pt .
  makeway cp settings.json 12:/tmp/settings.json

exit codes:
  0  copied     1  no such job or file, or it doesn't run     2  wrong usage, no server
"""

from __future__ import annotations

import argparse
import os
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import IO

from makeway.cli import connect, joining
from makeway.cli.command import RequestRefused, UsageError
from makeway.client import Client

STANDARD_ERROR = 2
# Into a folder that is there; else under the name that was asked for, all at once.
_TAKE = """
if [ -d "$1" ]; then exec tar xmf - -C "$1"; fi
new=$(mktemp -d "$(dirname -- "$1")/.makeway-XXXXXX") || exit
tar xmf - -C "$new" && mv -- "$new/$2" "$1"
code=$?; rm -rf -- "$new"; exit $code
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="JOB:PATH, or a path here")
    parser.add_argument("target", metavar="TO", help="a path here, or JOB:PATH")
    joining.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    source, target = _split(arguments.source), _split(arguments.target)
    if bool(source) == bool(target):
        raise UsageError("write one of the two as JOB:PATH, as in `makeway cp 12:out.csv .`")
    if source is not None:
        return _fetch(arguments, *source, Path(arguments.target))
    assert target is not None
    return _bring(arguments, Path(arguments.source), *target)


def _split(word: str) -> tuple[str, str] | None:
    """The job and the path there; None: a path here, as it has no colon before its first slash."""
    job, colon, path = word.partition(":")
    if not colon or "/" in job or not job:
        return None
    if not path:
        raise UsageError(f"{word}: name a path, as in {job}:out.csv")
    return job, path


def _fetch(arguments: argparse.Namespace, job: str, path: str, target: Path) -> int:
    name = PurePosixPath(path).name
    if not name or name == "..":
        raise UsageError(f"{path}: name a file or a folder")
    folder = str(PurePosixPath(path).parent)
    with tempfile.TemporaryFile() as file:
        command = ["tar", "cf", "-", "-C", folder, "--", name]
        code = _exec(arguments, job, command, None, file)
        if code:
            return code
        file.seek(0)
        try:
            with tarfile.open(fileobj=file) as archive:
                _unpack(archive, name, target / name if target.is_dir() else target)
        except tarfile.TarError as error:
            raise RequestRefused(f"{job}:{path} can't be unpacked here: {error}") from None
    return 0


def _unpack(archive: tarfile.TarFile, name: str, place: Path) -> None:
    """Whoever wrote the archive may be anybody: nothing leaves the folder that it is for."""
    with tempfile.TemporaryDirectory(prefix=".makeway-", dir=place.absolute().parent) as new:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(new, filter="data")
        else:  # Python before 3.11.4
            archive.extractall(new, list(map(_plain, archive)))
        if place.is_dir():
            raise RequestRefused(f"{place} is a folder that is there already")
        os.replace(Path(new) / name, place)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file or a folder that stays where it is unpacked; TarError if it isn't one."""
    path = PurePosixPath(member.name)
    if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
        raise tarfile.ExtractError(f"{member.name} is no file or folder of its own")
    member.mode, member.uid, member.gid = member.mode & 0o755, os.getuid(), os.getgid()
    return member


def _bring(arguments: argparse.Namespace, source: Path, job: str, path: str) -> int:
    name = source.resolve().name
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(source, arcname=name)
        file.seek(0)
        return _exec(arguments, job, ["sh", "-c", _TAKE, "sh", path, name], file, None)


def _exec(
    arguments: argparse.Namespace,
    job: str,
    command: list[str],
    given: IO[bytes] | None,
    taken: IO[bytes] | None,
) -> int:
    async def story(client: Client, namespace: str) -> int:
        chosen = {"pod": arguments.pod, "container": arguments.container}
        place = await joining.find_place(client, namespace, job, **chosen)
        pairs = joining.pairs_of(place, is_terminal=False, has_input=given is not None)
        call = place.call("exec", (*pairs, *(("command", word) for word in command)))
        async with joining.joined(arguments, call) as line:
            pairing = joining.Pairing(line, is_terminal=False, has_input=given is not None)
            pairing.source = 0 if given is None else given.fileno()
            pairing.target = STANDARD_ERROR if taken is None else taken.fileno()
            return await pairing.until_over()

    return connect.converse(arguments, story)
