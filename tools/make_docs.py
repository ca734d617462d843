"""Pages that come out of the code: `make docs` writes them, a test fails when one is stale."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tests.conformance.differences import DeliberateDifference, read_differences
from tests.conformance.gate_report import read_figures
from tests.conformance.gates import Rule

from makeway.api.batch import PodTemplateSpec
from makeway.api.codec import json_name
from makeway.api.descriptions import DESCRIPTIONS
from makeway.api.gates import GATES
from makeway.api.kinds import KINDS, UNSUPPORTED_KINDS, Kind
from makeway.api.meta import ObjectMeta
from makeway.api.schema import Mark
from makeway.api.times import format_duration
from makeway.api.versions import (
    CONFIGURATION_GROUP,
    OLD_VERSIONS,
    QUEUEING_GROUP,
    split_api_version,
)
from makeway.cli.main import DESCRIPTION, EPILOG, build_parser
from makeway.controller.metric_families import FAMILIES
from makeway.controller.series import Family
from makeway.engine.lifecycle import STEPS, Step
from makeway.engine.model import HOLDING, Phase

ROOT = Path(__file__).parents[1]
WIDTH = 100
BEHAVIOUR = ROOT / "tests" / "conformance" / "behaviour.md"
MADE_FROM = "<!-- Made by `make docs` from {source}; edit that instead. -->\n"


# --- docs/conformance.md ---


def conformance_page() -> str:
    sections = "\n".join(map(_difference, read_differences()))
    return f"""\
{MADE_FROM.format(source="tests/conformance/differences.toml and behaviour.md")}
# Conformance

Makeway's answers are compared, cycle by cycle, with thousands of recorded decisions of Kueue's own
scheduler: who is admitted on which flavors, who is preempted by whom and under which rule, the
order of the heads and what became of each, who stays in line and who is parked, who runs in the
end.

```
make conformance                              # all recordings that lie beside the checkout
make conformance SCENARIOS=some/file.jsonl    # any file or folder of that format, gzip or not
```

It prints a line per family, then the first differences, and exits with 1 if a scenario differs
that is not covered below. The recordings are run with Kueue's own settings: the gates
`HoldForPreemptor`, `OwnersFirst` and `PreemptionBackoff` are off and there are no fallback rules,
since Kueue has none of these.

## Where Makeway differs on purpose

Each difference is a predicate on a scenario, never a list of scenarios, and excuses nothing but
what it names: everything else in such a scenario still has to agree.

{sections}
## Where it behaves otherwise than Kueue

What no recording shows, by behaviour. Fields, kinds, gates and labels that Makeway accepts and does
not act on are named in the [reference](reference/objects.md), and by `makeway check`, `apply`, `up`
and `controller` wherever they are used.

{BEHAVIOUR.read_text()}
## What Makeway's own gates change

```
make conformance GATES=OwnersFirst=true       # one gate, or several with commas between them
make conformance GATES=each                   # every gate alone, then all together
```

Each scenario is played as it was recorded, and again with the gate. In the first cycle in which a
cohort tree differs, every head that is told something else falls under one of these rules, which
are read off what was decided and said, never off the name of a scenario; a difference under no
rule makes the command fail. From then on the two runs are different stories, and are only counted.
Figures are of the recordings that lie beside the checkout.

{_gate_sections()}"""


def _gate_sections() -> str:
    return "\n".join(_gate_section(name, figures) for name, figures in read_figures().items())


def _gate_section(name: str, figures: dict[str, Any]) -> str:
    gates = [f"`{gate}`" for gate in name.split(", ")]
    text = (
        f"Scenarios that differ: {figures['differ']} of {figures['scenarios']}; in who is admitted "
        "or preempted, and not only in the words of a wait, the order of heads, or who is parked: "
        f"{figures['decided otherwise']}; in further cycles as well: "
        f"{figures['in further cycles']}."
    )
    rows = "\n".join(
        f"| {Rule[rule].value} | {scenarios} | {heads} |"
        for rule, (scenarios, heads) in figures["rules"].items()
    )
    return f"""\
### {gates[0] if len(gates) == 1 else "All of them"}

{fill(text, WIDTH, break_on_hyphens=False)}

| at first | scenarios | heads |
|---|---:|---:|
{rows}
"""


def _difference(difference: DeliberateDifference) -> str:
    when = ", ".join(f"`{key}` is `{value}`" for key, value in difference.when.items())
    if difference.ignore:
        excused = "not compared: " + ", ".join(f"`{what}`" for what in sorted(difference.ignore))
    else:
        excused = "compared: the cycles before the first such head"
    texts = (difference.reason, f"Applies when {when}; {excused}.")
    paragraphs = [fill(text, WIDTH, break_on_hyphens=False) for text in texts]
    return "\n\n".join([f"### {difference.name.capitalize()}", *paragraphs]) + "\n"


# --- docs/reference/lifecycle.md ---


def lifecycle_page() -> str:
    rows = "\n".join(
        f"| {before.value} | {step.name.lower()} | {step.value} | {after.value} |"
        for (before, after), step in STEPS.items()
    )
    arrows = "\n".join(
        f"    {before.value} --> {after.value}: {step.name.lower()}"
        for (before, after), step in STEPS.items()
    )
    holding = ", ".join(f"*{phase.value}*" for phase in Phase if phase in HOLDING)
    unused = [step.name.lower() for step in Step if step not in STEPS.values()]
    assert not unused, f"steps that lead nowhere: {unused}"
    return f"""\
{MADE_FROM.format(source="src/makeway/engine/lifecycle.py")}
# The life of a workload

A workload is in one phase at a time. It holds quota exactly in these: {holding}.
A pair of phases that is not in the table can't happen: the engine stops with an assertion
rather than guess.

```mermaid
stateDiagram-v2
    [*] --> {Phase.PENDING.value}
{arrows}
    {Phase.FINISHED.value} --> [*]
```

| phase | step | meaning | next phase |
|---|---|---|---|
{rows}
"""


# --- docs/reference/cli.md ---


def cli_page() -> str:
    sections = "\n".join(map(_command, _subparsers()))
    return f"""\
{MADE_FROM.format(source="src/makeway/cli")}
# The command line

```
makeway COMMAND [OPTIONS]
```

{DESCRIPTION}
```
{EPILOG.strip()}
```

Colour is used on terminals only, and not when `NO_COLOR` is set. Should Makeway itself be at
fault, it says so in one line and exits with 70; `MAKEWAY_TRACEBACK=1` shows where.

{sections}"""


def _subparsers() -> list[tuple[str, argparse.ArgumentParser]]:
    (choices,) = (
        action.choices
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return list(choices.items())


def _command(named: tuple[str, argparse.ArgumentParser]) -> str:
    """Written out by us: argparse's own layout changes from one Python to the next."""
    name, parser = named
    rows = [_argument(action) for action in parser._actions if action.dest != "help"]
    words = [_word(action) for action in parser._actions if not action.option_strings]
    if len(rows) > len(words):
        words.append("[OPTIONS]")
    usage = " ".join(["makeway", name, *words])
    parts = [f"## `{usage}`", (parser.description or "").strip()]
    if rows:
        parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    if parser.epilog:
        parts.append(f"```\n{parser.epilog.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def _word(action: argparse.Action) -> str:
    """What stands for an argument; one that is chosen from a list may have no name of its own."""
    name = str(action.metavar or action.dest.upper())
    return f"{name}..." if action.nargs == "+" and "..." not in name else name


def _argument(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings or (_word(action),))
    choices = f" ({', '.join(action.choices)})" if action.choices else ""
    help = (action.help or "") % vars(action)
    return f"| {names}{choices} | {help} |"


# --- docs/reference/objects.md ---


def objects_page() -> str:
    kinds = sorted(KINDS.values(), key=lambda kind: (_group(kind) not in OWN_GROUPS, kind.KIND))
    others = "\n".join(
        f"| {kind} | `{group}` | {what} |" for (group, kind), what in UNSUPPORTED_KINDS.items()
    )
    sections = "\n".join(map(_kind, kinds))
    gates = "\n".join(f"| `{name}` | {'on' if is_on else 'off'} |" for name, is_on in GATES.items())
    return f"""\
{MADE_FROM.format(source="the dataclasses in src/makeway/api")}
# Objects

What Makeway reads, field by field. Older versions are converted to the first version named. A
field marked *not acted on* is accepted and kept, and reported as a warning by `makeway check`. Of
Kubernetes' own kinds these are the fields that Makeway looks at; all others pass through untouched.
`(ours)` marks Makeway's additions. Status fields are left out here. What is required of an optional
part is required where that part is written.

Kinds that are accepted and not acted on:

| kind | group | what Makeway lacks |
|---|---|---|
{others}

{sections}
## Feature gates

Set in `featureGates` of the Configuration.

| gate | default |
|---|---|
{gates}
"""


OWN_GROUPS = ("kueue.x-k8s.io", "config.kueue.x-k8s.io")
NOT_SHOWN = ("metadata", "status", "document")
MARKS = {
    Mark.AMOUNT: "quantity",
    Mark.QUANTITY: "quantity",
    Mark.DURATION: "duration",
    Mark.TIME: "time",
    Mark.INT32: "integer",
}
PLAIN = {str: "text", bool: "boolean", int: "integer", float: "number", object: "anything"}


def _group(kind: type[Kind]) -> str:
    return split_api_version(kind.API_VERSION)[0]


def _versions(kind: type[Kind]) -> tuple[str, ...]:
    group, version = split_api_version(kind.API_VERSION)
    return (version, *(OLD_VERSIONS if group in (QUEUEING_GROUP, CONFIGURATION_GROUP) else ()))


def _kind(kind: type[Kind]) -> str:
    group = _group(kind)
    versions = ", ".join(f"`{group}/{v}`".replace("`/", "`") for v in _versions(kind))
    heading = f"## {kind.KIND}" + ("" if group in OWN_GROUPS else f" ({group or 'core'})")
    rows = "\n".join(_rows(kind, ""))
    if not rows:
        return f"{heading}\n\n{versions}. Only its metadata is read.\n"
    table = f"| field | type | default | |\n|---|---|---|---|\n{rows}"
    return f"{heading}\n\n{versions}\n\n{table}\n"


def _rows(cls: type, path: str) -> Iterator[str]:
    hints = get_type_hints(cls, include_extras=True)
    comments = _comments(cls)
    for member in fields(cls):
        if member.name in NOT_SHOWN:
            continue
        name = member.metadata.get("name") or json_name(member.name)
        hint, suffix = _inner(hints[member.name])
        here = f"{path}{name}{suffix}"
        if (
            is_dataclass(hint)
            and isinstance(hint, type)
            and hint not in (PodTemplateSpec, ObjectMeta)
        ):
            note = _note(cls, member, comments)
            if note:
                yield f"| `{here}` | | | {note} |"
            yield from _rows(hint, f"{here}.")
        else:
            default, note = _default(member, hints[member.name]), _note(cls, member, comments)
            yield f"| `{here}` | {_type_name(hint)} | {default} | {note} |"


def _inner(hint: Any) -> tuple[Any, str]:
    """What a field holds once None, lists and mappings are taken off, and how its path goes on."""
    hint = _without_none(hint)
    origin = get_origin(hint)
    if origin is tuple:
        inner, suffix = _inner(get_args(hint)[0])
        return inner, f"[]{suffix}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner, suffix = _inner(get_args(hint)[1])
        return inner, f".KEY{suffix}"
    return hint, ""


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    left = tuple(arm for arm in get_args(hint) if arm is not type(None))
    return left[0] if len(left) == 1 else Union[left]  # noqa: UP007


def _type_name(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return " / ".join(f"`{choice}`" for choice in get_args(hint))
    if origin is Annotated:
        return MARKS[next(arm for arm in get_args(hint) if isinstance(arm, Mark))]
    if origin in (Union, types.UnionType):
        return " or ".join(map(_type_name, get_args(hint)))
    if hint is PodTemplateSpec:
        return "pod template, see Pod"
    if hint is ObjectMeta:
        return "metadata"
    return PLAIN[hint]


def _default(member: Field[Any], hint: Any) -> str:
    if member.default is MISSING and member.default_factory is MISSING:
        return "**required**"
    value = member.default
    if value is MISSING or value is None or value in ("", ()):
        return ""
    if get_origin(hint) is Annotated and Mark.DURATION in get_args(hint):
        return f"`{format_duration(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str | int | float | Fraction) else ""


def _note(cls: type, member: Field[Any], comments: Mapping[str, str]) -> str:
    what = member.metadata.get("unsupported")
    if what:
        return f"*not acted on*: {what}"
    name = member.metadata.get("name") or json_name(member.name)
    said = DESCRIPTIONS.get(cls.__name__, {}).get(name)
    return comments.get(member.name, "") if said is None else said.replace("|", "\\|")


_COMMENTED = re.compile(r"^    (\w+): .*?  # (.*)$", re.MULTILINE)


def _comments(cls: type) -> dict[str, str]:
    """The remark behind each field in the source, which says what the value means."""
    found = dict(_COMMENTED.findall(inspect.getsource(cls)))
    return {
        name: text.replace("None:", "not set:").replace("|", "\\|") for name, text in found.items()
    }


# --- docs/reference/metrics.md ---


def metrics_page() -> str:
    theirs = "\n".join(_metric(family) for family in FAMILIES if _is_kueues(family))
    ours = "\n".join(_metric(family) for family in FAMILIES if not _is_kueues(family))
    buckets = "\n".join(
        f"| {', '.join(f'{bound:g}' for bound in bounds)} | {', '.join(names)} |"
        for bounds, names in _bucketed().items()
    )
    return f"""\
{MADE_FROM.format(source="src/makeway/controller/metric_families.py")}
# Metrics

`GET /metrics` answers in Prometheus' text form. Where Kueue measures the same, name and labels are
Kueue's, so that dashboards made for Kueue find them; what only Makeway has begins with `makeway_`.

- Amounts of `cpu` are in cores, all others in their own unit (bytes, devices).
- `priority_class` is the name in the workload's `priorityClassRef`, or empty.
- `replica_role` tells which replica counts: `leader`, or `standalone` when there is only one.
- `reason` of an eviction is Kueue's word, or `FlavorFallback` or `PreemptedInPlacement`, which
  Kueue has not. `underlying_cause` is set for `Deactivated` only.
- Counters begin anew with a restart. A decision is counted when it is made; if its write is refused
  it is taken back, but not uncounted.
- A queue that is deleted takes its series with it.
- A limit that is not set has no series. Kueue's metrics that are not in the table are not measured,
  among them `kueue_unadmitted_workloads`, `kueue_finished_workloads` (a gauge) and
  `kueue_cluster_queue_resource_pending`.

| metric | type | labels | meaning |
|---|---|---|---|
{theirs}

## Makeway's own

| metric | type | labels | meaning |
|---|---|---|---|
{ours}

## Buckets

In seconds.

| bounds | of |
|---|---|
{buckets}
"""


def _is_kueues(family: Family) -> bool:
    return family.name.startswith("kueue_")


def _metric(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.type} | {labels} | {family.help} |"


def _bucketed() -> dict[tuple[float, ...], list[str]]:
    found: dict[tuple[float, ...], list[str]] = {}
    for family in FAMILIES:
        if family.buckets:
            found.setdefault(family.buckets, []).append(f"`{family.name}`")
    return found


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "conformance.md": conformance_page,
    ROOT / "docs" / "reference" / "lifecycle.md": lifecycle_page,
    ROOT / "docs" / "reference" / "cli.md": cli_page,
    ROOT / "docs" / "reference" / "objects.md": objects_page,
    ROOT / "docs" / "reference" / "metrics.md": metrics_page,
}


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--write"]):
        print("usage: python -m tools.make_docs [--write]", file=sys.stderr)
        return 2
    stale = 0
    for path, make in PAGES.items():
        text = make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'written' if arguments else 'stale, run make docs'}")
    return 1 if stale and not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
