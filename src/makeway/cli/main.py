"""The `makeway` command: finds the subcommand, runs it, turns errors into a line and a code.

Exit codes: 0 all is well, 1 the answer is no (there are errors), 2 the command was used wrongly
or a file can't be read, 70 a bug of ours, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from makeway.cli.command import EXIT_INTERRUPTED, RequestRefused, UsageError, drop_output
from makeway.cli.suggesting import SuggestingParser, did_you_mean

# Each command is a module. Its docstring is its help: a line for the list of commands, what it does
# and examples; `add_arguments` says what it takes, `run` returns the exit code.
# Only the module asked for is loaded, since loading takes most time.
NAMES = (
    *("demo", "check", "lint", "simulate", "up", "down", "backup", "controller", "kubeconfig"),
    *("token", "grant", "share", "audit", "dashboard"),
    *("submit", "run", "exec", "attach", "cp", "port-forward", "status", "top", "queues", "gpu"),
    *("explain", "forecast", "logs", "wait"),
    *("cancel", "hold", "resume", "requeue", "retry", "edit", "priority", "history", "clean"),
    *("checkpoint", "why", "replay", "report", "bundle", "preview", "diff"),
    *("apply", "get", "describe", "delete", "convert", "examples", "completion", "version"),
    *("install", "uninstall", "service"),
)
BARE = "status"  # what `makeway` alone does
DESCRIPTION = """\
Makeway decides which batch workloads run now, on which kind of hardware, and
who has to make way for whom. Queues own quota per flavor of hardware, lend
what they don't use, and take it back when they need it.
"""
EPILOG = """\
start here:
  makeway demo                    two teams share GPUs, told as it happens
  makeway check queues.yaml       is this file right? every error, with its line
  makeway up                      queues and jobs on this machine
  makeway submit -- COMMAND       run something when there is room for it
  makeway                         who runs, who waits, and for what
  makeway exec JOB                a shell where a job runs
  makeway COMMAND --help          what a command does, with examples

exit codes:
  0  all is well                  1  the answer is no: errors were found
  2  wrong usage, unreadable file, no server
"""
HINT = """\
  makeway demo      two teams share GPUs, told as it happens
  makeway up        queues and jobs on this machine
  makeway --help    all commands"""
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_BROKEN_PIPE = 141
HELP_WIDTH = 80
_OF_OUTPUT = frozenset((errno.EBADF, errno.EIO, errno.ENOSPC))  # errors of writing to the output


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Paragraphs are filled as the terminal has room; what is indented stays as it is written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill  # for whoever asks for help

        lines: list[str] = []
        paragraph: list[str] = []
        for line in [*text.strip("\n").splitlines(), ""]:
            if line and not line[0].isspace():
                paragraph.append(line)
                continue
            if paragraph:
                words = " ".join(paragraph)
                lines.append(fill(words, min(width, HELP_WIDTH), break_on_hyphens=False))
            lines.append(line)
            paragraph = []
        return "\n".join(lines).rstrip()


def build_parser(names: Sequence[str] = NAMES) -> argparse.ArgumentParser:
    parser = SuggestingParser(
        prog="makeway",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name in names:
        command = import_module(f"makeway.cli.{name.replace('-', '_')}")
        assert command.__doc__ is not None, name
        summary, _, text = command.__doc__.partition("\n\n")
        description, heading, examples = text.partition("examples:\n")
        subparser = subparsers.add_parser(
            name,
            help=summary,
            description=description,
            epilog=heading + examples,
            formatter_class=HelpFormatter,
        )
        command.add_arguments(subparser)
        parser.commands[name] = subparser
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    _have_output()
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except RequestRefused as error:
        _say(str(error))
        return EXIT_REFUSED
    except UsageError as error:
        _say(str(error))
        return EXIT_USAGE
    except OSError as error:
        drop_output()
        _say(_error_text(error))
        return EXIT_REFUSED
    except Exception as error:
        if os.environ.get("MAKEWAY_TRACEBACK"):
            raise
        _say(
            f"this is a bug in Makeway: {type(error).__name__}: {error}\n"
            "  MAKEWAY_TRACEBACK=1 shows where; please report it with that"
        )
        return EXIT_BUG


def _have_output() -> None:
    """Where standard output is closed there is no stream at all: put one there that refuses."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")


def _error_text(error: OSError) -> str:
    from makeway.api.errors import in_words  # a command loads only what it needs

    why = in_words(error)
    if error.filename is not None:
        return f"{error.filename}: {why}"
    return f"the output can't be written: {why}" if error.errno in _OF_OUTPUT else why


def _say(text: str) -> None:
    """What was typed may hold bytes that no terminal can print."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"makeway: {safe}", file=sys.stderr)


def _run(arguments: list[str]) -> int:
    if not arguments:
        return _run_bare()
    if not arguments[0].startswith("-") and arguments[0] not in NAMES:
        hint = did_you_mean(arguments[0], NAMES)
        raise UsageError(f"there is no command {arguments[0]!r}{hint}; `makeway --help` lists them")
    names = (arguments[0],) if arguments[0] in NAMES else NAMES
    parsed = build_parser(names).parse_args(arguments)
    if parsed.command is None:
        raise UsageError("name a command; `makeway --help` lists them")
    code: int = parsed.run(parsed)
    return code


def _run_bare() -> int:
    """The status; where no server runs, how to begin."""
    parsed = build_parser((BARE,)).parse_args([BARE])
    try:
        code: int = parsed.run(parsed)
        return code
    except UsageError as error:
        raise UsageError(f"{error}\n{HINT}") from None


if __name__ == "__main__":
    sys.exit(main())
