"""print a script that lets your shell complete commands, options, jobs and queues

Print a script that lets a shell complete commands, options, kinds, and the names of jobs,
queues and priority classes.

examples:
  source <(makeway completion bash)
  makeway completion zsh > "${fpath[1]}/_makeway"
  makeway completion fish > ~/.config/fish/completions/makeway.fish
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from makeway.api.kinds import RESOURCES

JOBS = "makeway status --all -o name 2>/dev/null | sed 's|.*/||'"


class Word(NamedTuple):
    """A command as its parser knows it."""

    name: str
    summary: str
    options: tuple[argparse.Action, ...]
    takes: tuple[str, ...]  # metavars of the arguments

    @property
    def flags(self) -> list[str]:
        return [flag for action in self.options for flag in action.option_strings]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    # The parser knows this command in turn.
    from makeway.cli.main import build_parser

    print("\n".join(SCRIPTS[arguments.shell](words_of(build_parser()))))
    return 0


def words_of(parser: argparse.ArgumentParser) -> list[Word]:
    (subparsers,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    summaries = {action.dest: action.help or "" for action in subparsers._choices_actions}
    return [
        Word(
            name,
            summaries.get(name, ""),
            tuple(action for action in sub._actions if action.option_strings),
            tuple(str(a.metavar) for a in sub._actions if not a.option_strings),
        )
        for name, sub in subparsers.choices.items()
    ]


def _choices(action: argparse.Action) -> str:
    """What a shell offers behind an option: words, or the output of a command."""
    for flag in action.option_strings:
        if flag in ASKED:
            return f"$({ASKED[flag]})"
    return " ".join(map(str, action.choices or ()))


def _arguments(word: Word) -> str:
    """The same where no option stands."""
    taken = [metavar.split()[0] for metavar in word.takes]
    return next((offered for metavar, offered in OFFERED.items() if metavar in taken), "")


def _named(kind: str) -> str:
    """A command that prints the names of a kind's objects."""
    return f"makeway get {kind} -o name 2>/dev/null | sed 's|.*/||'"


def _kinds() -> str:
    names = dict.fromkeys(resource.plural for resource in RESOURCES)
    return " ".join(names)


ASKED = {"--queue": _named("localqueues"), "--priority": _named("workloadpriorityclasses")}
# By metavar; a command takes one of them first.
OFFERED = {
    "JOB": f"$({JOBS})",
    "KIND": _kinds(),
    "SHELL": "bash zsh fish",
    "GPU": "drain undrain",
}


def bash(words: list[Word]) -> Iterator[str]:
    yield "# Made by `makeway completion bash`."
    yield from _function(words)
    yield "complete -o default -F _makeway makeway"


def _function(words: list[Word]) -> Iterator[str]:
    names = " ".join(word.name for word in words)
    yield "_makeway() {"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local options="" arguments=""'
    yield "    COMPREPLY=()"
    yield "    if ((COMP_CWORD == 1)); then"
    yield f'        COMPREPLY=($(compgen -W "{names}" -- "$current"))'
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $previous" in'
    for word in words:
        for action in word.options:
            if _choices(action):
                patterns = "|".join(f'"{word.name} {flag}"' for flag in action.option_strings)
                reply = f'COMPREPLY=($(compgen -W "{_choices(action)}" -- "$current"))'
                yield f"        {patterns}) {reply}; return ;;"
    yield "    esac"
    yield '    case "${COMP_WORDS[1]}" in'
    for word in words:
        yield f'        {word.name}) options="{" ".join(word.flags)}"'
        if _arguments(word):
            yield f'            [[ "$current" == -* ]] || arguments="{_arguments(word)}"'
        yield "            ;;"
    yield "    esac"
    yield '    [[ "$current" == -* ]] && arguments="$options"'
    yield '    COMPREPLY=($(compgen -W "$arguments" -- "$current"))'
    yield "}"


def zsh(words: list[Word]) -> Iterator[str]:
    yield "#compdef makeway"
    yield "# Made by `makeway completion zsh`; zsh understands bash's functions."
    yield "autoload -U +X bashcompinit && bashcompinit"
    yield from _function(words)
    yield "complete -o default -F _makeway makeway"


def fish(words: list[Word]) -> Iterator[str]:
    yield "# Made by `makeway completion fish`."
    for word in words:
        summary = shlex.quote(word.summary)
        yield f"complete -c makeway -n __fish_use_subcommand -f -a {word.name} -d {summary}"
        seen = f"'__fish_seen_subcommand_from {word.name}'"
        if arguments := _arguments(word):
            yield f"complete -c makeway -n {seen} -f -a {_in_fish(arguments)}"
        for action in word.options:
            yield f"complete -c makeway -n {seen} {_fish_option(action)}"


def _in_fish(offered: str) -> str:
    """In quotes, with commands as fish writes them."""
    return f"'{offered.replace('$(', '(').replace(chr(39), chr(34))}'"


def _fish_option(action: argparse.Action) -> str:
    parts = []
    for flag in action.option_strings:
        parts.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
    if offered := _choices(action):
        parts.append(f"-x -a {_in_fish(offered)}")
    elif action.nargs != 0:
        parts.append("-r")
    return " ".join([*parts, f"-d {shlex.quote(action.help or '')}"])


SCRIPTS: dict[str, Callable[[list[Word]], Iterator[str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
