"""put a command in a queue, to run when there is room for it

Create a Job that runs a command, and print its number. It starts when its queue
admits it. It runs in the current directory, with the variables of this shell but
for those that belong to the session (terminal, display, SSH, D-Bus) and those
that the runner sets (CUDA_VISIBLE_DEVICES). They are stored with the Job, readable
by everybody who may read Jobs there; --no-env takes none along. Directory, git
revision and user are noted as annotations. On a cluster it runs in a container:
--image is needed, and only the variables of --env and the directory of --workdir
are taken along.

What is not asked for is not counted against quota, but for one core in the queue
that Makeway has as long as nobody has made another (`default`); what could never run
is refused. A script may bring options along, in comments at its top; the command line
goes before them. Slurm's #SBATCH lines are read where they mean something here, the
others named:

  #!/bin/bash
  #MAKEWAY --gpu 2 --memory 16Gi
  python train.py

An array is one job for each index, which starts when it fits and fails alone; %8 lets
eight of them be under way at once. `12` means all of array 12, `12_4` one of it.

With --after a job waits outside its queue until another has ended as it should; if that
can't come true any more, it fails (DependencyNeverSatisfied). Arrays of equal indexes
wait index by index.

examples:
  makeway submit -- python train.py
  makeway submit -q vision --gpu 1 -- python train.py --epochs 3
  makeway submit --cpu 4 --time-limit 2h ./train.sh
  makeway submit --array 1-100%8 -- sh -c 'python part.py $MAKEWAY_ARRAY_INDEX'
  makeway submit --after 12 -- python evaluate.py       # when job 12 has succeeded
  makeway submit --grace 2m --signal USR1@60 -- python train.py   # time to save its work
  makeway submit --notify 'notify-send "$MAKEWAY_SUBJECT"' -- make test
  makeway submit --follow -- make test
  makeway submit --dry-run client -- python train.py > job.yaml
  makeway submit --preview --gpu 8 -- python train.py

exit codes:
  0  submitted     1  the server refused, no such queue     2  wrong usage, no server
  with --wait or --follow, that of the job: 0 on success, else of the first container
  that failed; 124 when out of time, 130 after Ctrl-C (the job goes on)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from makeway.api.arrays import ArrayError, Indexes, expanded, parse_indexes
from makeway.api.labels import ARRAY, QUEUE_NAME
from makeway.cli import connect, sbatch
from makeway.cli.chosen_queue import choose_queue, is_automatic
from makeway.cli.command import EXIT_INTERRUPTED, RequestRefused, UsageError
from makeway.cli.creating import Creation
from makeway.cli.new_job import GPU, IMAGE, SCRIPTS, job_of
from makeway.cli.plain import JOBS, Plain, plain
from makeway.cli.tables import counted, print_document
from makeway.client import ApiError, Client
from makeway.client.client import Document
from makeway.translate.job_names import job_text, short_text

DIRECTIVE = "#MAKEWAY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing has a default here, so that a script's own lines can tell what was not written."""
    add = parser.add_argument
    add(
        "words",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="what to run, after `--`; or a script and its arguments",
    )
    add(
        "-q",
        "--queue",
        help="LocalQueue (default: $MAKEWAY_QUEUE, else the only one, else `default`)",
    )
    add("--name", help="what to call it; others may be called so too (default: by the command)")
    add("--cpu", metavar="QTY", help="cores per pod, for example 2 or 500m")
    add("--memory", metavar="QTY", help="memory per pod, for example 4Gi")
    add("--gpu", metavar="N", help="GPUs per pod")
    add("--gpu-resource", metavar="NAME", help=f"what a GPU is called (default: {GPU})")
    add("--request", metavar="RES=QTY", action="append", help="any resource; may be repeated")
    add("--parallelism", type=int, metavar="N", help="so many pods at once")
    add("--completions", type=int, metavar="N", help="so many pods in all (default: as above)")
    add(
        "--array", metavar="INDEXES", help="a job for each index, as 1-100, 1,3,7, 0-30:2, 1-100%%8"
    )
    add("--priority", metavar="CLASS", help="WorkloadPriorityClass")
    add("--retries", type=int, metavar="N", help="start failed pods again so often (default: 0)")
    add("--time-limit", metavar="SPAN", help="end it after running so long, for example 2h")
    add("--grace", metavar="SPAN", help="from SIGTERM to the end when it is stopped (default: 30s)")
    add("--signal", metavar="NAME@SECONDS", help="a signal so long before SIGTERM, as USR1@120")
    add("--ttl", metavar="SPAN", help="delete it so long after its end (default: keep it)")
    add("--env", metavar="K=V", action="append", help="a variable; may be repeated")
    add("--no-env", action="store_true", default=None, help="take no variables along")
    add("--workdir", metavar="DIR", help="where to run (default: the current directory)")
    add("--image", help="container image, for servers that run containers")
    for option, when in (("", "has succeeded"), ("-any", "is over"), ("-failed", "has failed")):
        add(f"--after{option}", metavar="JOB", action="append", help=f"wait until that {when}")
    add("--notify", metavar="WHOM", action="append", help="a command, a URL or mailto:ADDRESS")
    add("--force", action="store_true", default=None, help="queue it though it can never run")
    add("--hold", action="store_true", default=None, help="queue it, but let it wait for `resume`")
    add("--follow", action="store_true", default=None, help="print its output, until it ends")
    add("--wait", action="store_true", default=None, help="wait until it ends")
    add("--dry-run", choices=("client", "server"), help="print the Job; create nothing")
    add(
        "--preview",
        action="store_true",
        default=None,
        help="tell what would become of it: starts, makes whom way, waits for what; create nothing",
    )
    add("-o", "--output", choices=("text", "name", "json", "yaml"), help="how to print")
    connect.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    job, array = job_of(arguments, command_of(arguments)), _indexes(arguments)
    if arguments.dry_run == "client":
        if arguments.queue:
            job["metadata"]["labels"][QUEUE_NAME] = arguments.queue
        _print(expanded(job, array[1]) if array else [job], arguments.output or "yaml")
        return 0
    submitted: list[Plain] = []
    is_own = connect.is_own(arguments)
    for option in ("signal", "notify"):
        if getattr(arguments, option) is not None and not is_own:
            raise UsageError(f"--{option}: only a `makeway up` does that, not a cluster")

    async def story(client: Client, namespace: str) -> int:
        await look_up(client, namespace, arguments, job, None if array is None else array[1])
        creation = Creation(client, namespace, job, array)
        if arguments.preview:
            from makeway.cli.preview import previewed, print_preview

            found = await creation.under_a_free_name(
                lambda: previewed(client, JOBS, job, namespace)
            )
            await print_preview(client, found, arguments.output)
            return 0
        await refuse_hopeless(client, namespace, job, is_forced=bool(arguments.force))
        if arguments.dry_run:
            _print(await creation.try_out(is_own=is_own), arguments.output or "yaml")
            return 0
        made = await creation.run(is_own=is_own)
        submitted.extend(map(plain, made))
        _tell(made, submitted, arguments.output)
        connect.show_warnings(client)
        _warn_of_command(job)
        return await _stay(client, job, made, arguments) if _stays(arguments) else 0

    try:
        return connect.converse(arguments, story, stays=_stays(arguments), is_quick=True)
    except KeyboardInterrupt:
        if not submitted:
            raise
        _tell_it_goes_on(submitted)
        return EXIT_INTERRUPTED


def _tell_it_goes_on(submitted: Sequence[Plain]) -> None:
    metadata = submitted[0]
    word = metadata.labels.get(ARRAY) or short_text(metadata)
    what = job_text(metadata) if len(submitted) == 1 else f"array {word}"
    print(
        f"\nmakeway: {what} goes on without you; `makeway logs -f {short_text(metadata)}`"
        f" follows it, `makeway cancel {word}` ends it",
        file=sys.stderr,
    )


async def refuse_hopeless(
    client: Client, namespace: str, job: Document, *, is_forced: bool
) -> None:
    """What even an empty machine would never start; servers that don't know leave it at that."""
    if is_forced:
        return
    try:
        never = (await client.prospects(namespace, job))["never"]
    except ApiError as error:
        if not error.may_lack_path:
            raise
        return
    if never:
        raise RequestRefused(f"{never[0]} (--force queues it all the same)")


def _stays(arguments: argparse.Namespace) -> bool:
    return bool(arguments.wait or arguments.follow)


def _print(jobs: Sequence[Document], output: str) -> None:
    if len(jobs) == 1:
        print_document(output, jobs[0])
    else:
        print_document(output, {"apiVersion": "v1", "kind": "List", "items": list(jobs)})


def _tell(documents: Sequence[Document], jobs: Sequence[Plain], output: str | None) -> None:
    first, last = jobs[0], jobs[-1]
    if output == "name":
        for job in jobs:
            print(f"job.batch/{job.name}", flush=True)
    elif output in ("json", "yaml"):
        _print(documents, output)
    elif ARRAY not in first.labels:
        print(f"Submitted {job_text(first)}", flush=True)
    else:
        span = f"{short_text(first)} to {short_text(last)}"
        count = counted(len(jobs), "job")
        print(f"Submitted array {first.labels[ARRAY]}: {count}, {span}", flush=True)


def _warn_of_command(job: Document) -> None:
    """A command that is not here may still be where the job runs; in an image, that is unknown."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    if container["image"] != IMAGE:
        return
    word, folder = container["command"][0], container["workingDir"]
    if shutil.which(os.path.join(folder, word) if "/" in word else word) is None:
        text = f"there is no command {word!r} here; the job fails if there is none where it runs"
        print(f"warning: {text}", file=sys.stderr)


async def _stay(
    client: Client, template: Document, made: Sequence[Document], arguments: argparse.Namespace
) -> int:
    """The code of the first that failed, in the order of an array's indexes."""
    from makeway.api.batch import Job  # who doesn't stay needs neither these nor a loop
    from makeway.cli.following import Follower, wait_for_end
    from makeway.cli.views import view_of

    codes = [0]
    for one in made:
        job = view_of(Job, {**template, "metadata": one["metadata"]})
        if arguments.follow:
            ended = await Follower(client, job, {}).run(tells_state=True)
        else:
            ended = await wait_for_end(client, job)
        print(f"makeway: {job_text(job.metadata)} {ended.text}", file=sys.stderr)
        codes.append(ended.code)
    return next((code for code in codes if code), 0)


async def look_up(
    client: Client,
    namespace: str,
    arguments: argparse.Namespace,
    job: Document,
    indexes: Indexes | None = None,
) -> None:
    """Complete a Job by what only the server knows: its queue, and what it is to wait for."""
    await _put_in_queue(client, namespace, arguments.queue, job)
    if arguments.priority:
        from makeway.cli.priority import look_up_class

        await look_up_class(client, arguments.priority)
    if arguments.after or arguments.after_any or arguments.after_failed:
        from makeway.cli.waiting_for import annotations_for

        after = await annotations_for(client, namespace, arguments, indexes)
        job["metadata"]["annotations"] |= after


async def _put_in_queue(client: Client, namespace: str, named: str | None, job: Document) -> None:
    """In the automatic queue a job that says nothing counts as one core, lest a hundred of them
    start at once.
    """
    queue = await choose_queue(client, namespace, named)
    job["metadata"]["labels"][QUEUE_NAME] = plain(queue).name
    if is_automatic(queue):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        resources = container.get("resources") or {}
        asked = {"cpu": "1", **(resources.get("requests") or {})}  # counted; no limit follows
        container["resources"] = {**resources, "requests": asked}


# --- what was asked for ---


class _DirectiveParser(argparse.ArgumentParser):
    """Tells what is wrong with a script's lines as such."""

    where = ""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.where}: {message}")


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the command; options that a script brings along are filled in."""
    words: list[str] = arguments.words
    if words[:1] == ["--"]:
        command = words[1:]
        _warn_of_unread_lines(command[:1])
    else:
        command = _script(words, arguments)
    if not command:
        raise UsageError("say what to run: makeway submit -q QUEUE -- COMMAND")
    return command


def _warn_of_unread_lines(words: Sequence[str]) -> None:
    """Behind `--` stands a command: lines of a script are not read then."""
    for path in (word for word in words if "/" in word and os.path.isfile(word)):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            head = file.read(8192).splitlines()
            if any(line.startswith((DIRECTIVE, sbatch.DIRECTIVE)) for line in head):
                text = f"the options in {path} are not read behind --; leave -- out"
                print(f"warning: {text}", file=sys.stderr)


def _script(words: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """A script that lies here, with its directives; any other word is a command."""
    path = Path(words[0]) if words else Path()
    if not words or not os.path.isfile(path):  # Path's own raises for names that are too long
        _refuse_missing_script(words, arguments)
        return list(words)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    slurm: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            break
        word, where = line.split(" ")[0].split("\t")[0], f"{path}:{number}"
        if word == DIRECTIVE:
            _take_directive(where, line.removeprefix(DIRECTIVE), arguments)
        elif word == sbatch.DIRECTIVE:
            slurm.append((where, line.removeprefix(sbatch.DIRECTIVE)))
    _take_slurms(slurm, arguments)
    if os.access(path, os.X_OK):
        return [str(path.absolute()), *words[1:]]
    first = lines[0] if lines else ""
    interpreter = first[2:].split() if first.startswith("#!") else ["/bin/sh"]
    return [*interpreter, str(path.absolute()), *words[1:]]


def _refuse_missing_script(words: Sequence[str], arguments: argparse.Namespace) -> None:
    """What looks like a script was meant as one that lies here; after `--` it is a command."""
    is_script = any("/" in word or Path(word).suffix in SCRIPTS for word in words[:1])
    if is_script and not arguments.image and shutil.which(words[0]) is None:
        raise UsageError(f"there is no script {words[0]} here; for a command, write -- before it")


def _take_directive(where: str, text: str, arguments: argparse.Namespace) -> None:
    """What the command line says goes before what the script says; repeated options add up."""
    parser = _DirectiveParser(prog="makeway submit", add_help=False)
    parser.where = where
    add_arguments(parser)
    try:
        found = parser.parse_args(shlex.split(text, comments=True))
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    if found.words:
        raise UsageError(f"{where}: {found.words[0]!r} is no option")
    for name, value in vars(found).items():
        written = getattr(arguments, name)
        if written is None:
            setattr(arguments, name, value)
        elif isinstance(value, list):
            setattr(arguments, name, [*value, *written])


def _take_slurms(lines: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> None:
    """Slurm's lines, where they mean something; our own in the same script go before them."""
    left: list[str] = []
    for where, text in lines:
        found = sbatch.read_line(where, text)
        left += found.left
        _take_directive(where, shlex.join(found.options), arguments)
    if left:
        print(f"warning: #SBATCH {', '.join(left)}: means nothing here", file=sys.stderr)


def _indexes(arguments: argparse.Namespace) -> tuple[str, Indexes] | None:
    if arguments.array is None:
        return None
    if arguments.preview:
        raise UsageError("--preview is for one job; leave out --array")
    if arguments.follow:
        raise UsageError("--follow is for one job; use --wait, or `makeway logs -f` of one index")
    try:
        return arguments.array, parse_indexes(arguments.array)
    except ArrayError as error:
        raise UsageError(f"--array {error}") from None
