"""The `makeway` command: finds the subcommand, runs it, and turns trouble into a line and a code.

Exit codes: 0 all is well, 1 the answer is no (there are errors), 2 the command was used wrongly
or a file can't be read, 70 a bug of ours, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from makeway.cli import (
    apply,
    check,
    convert,
    delete,
    demo,
    describe,
    get,
    kubeconfig,
    simulate,
    up,
    version,
    wait,
)
from makeway.cli.command import Command, Trouble

COMMANDS: tuple[Command, ...] = (
    demo.COMMAND,
    check.COMMAND,
    simulate.COMMAND,
    up.COMMAND,
    kubeconfig.COMMAND,
    apply.COMMAND,
    get.COMMAND,
    describe.COMMAND,
    delete.COMMAND,
    wait.COMMAND,
    convert.COMMAND,
    version.COMMAND,
)
DESCRIPTION = """\
Makeway decides which batch workloads run now, on which kind of hardware, and
who has to make way for whom. Queues own quota per flavor of hardware, lend
what they don't use, and take it back when they need it.
"""
EPILOG = """\
start here:
  makeway demo                    two teams share GPUs, told decision by decision
  makeway check queues.yaml       is this file right? every error, with its line
  makeway COMMAND --help          what a command does, with examples

exit codes:
  0  all is well                  1  the answer is no: errors were found
  2  wrong usage, unreadable file
"""
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="makeway",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The interpreter flushes once more on its way out; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Trouble as trouble:
        print(f"makeway: {trouble}", file=sys.stderr)
        return EXIT_USAGE
    except Exception as error:
        if os.environ.get("MAKEWAY_TRACEBACK"):
            raise
        print(
            f"makeway: this is a bug in Makeway: {type(error).__name__}: {error}\n"
            "  MAKEWAY_TRACEBACK=1 shows where; please report it with that",
            file=sys.stderr,
        )
        return EXIT_BUG


def _run(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return EXIT_USAGE
    code: int = parsed.run(parsed)
    return code


if __name__ == "__main__":
    sys.exit(main())
