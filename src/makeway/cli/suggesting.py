"""Parsers that say what was probably meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

_UNKNOWN = "unrecognized arguments: "


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean submit?)`, or nothing."""
    from difflib import get_close_matches  # for mistakes only

    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


class SuggestingParser(argparse.ArgumentParser):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.commands: dict[str, SuggestingParser] = {}  # by name, where it has some
        self.takes_command = False  # what stands behind `--` are `words`, wherever options stand

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self.takes_command or args is None or "--" not in args:
            return super().parse_known_args(args, namespace)
        place = list(args).index("--")
        found, rest = super().parse_known_args(args[:place], namespace)
        found.words = list(args[place + 1 :])
        return found, rest

    def error(self, message: str) -> NoReturn:
        """The usage of the command that was meant, not of all; and a hint."""
        command = next((self.commands[w] for w in sys.argv[1:2] if w in self.commands), self)
        if message.startswith(_UNKNOWN):
            words = message.removeprefix(_UNKNOWN).split()
            names = [name for name in command._option_string_actions if name.startswith("--")]
            options = [word.partition("=")[0] for word in words if word.startswith("-")]
            if options:
                message = f"there is no option {options[0]}{did_you_mean(options[0], names)}"
        command.print_usage(sys.stderr)
        command.exit(2, f"{command.prog}: error: {message}\n")
