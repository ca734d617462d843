"""Documentation that is true: generated pages are fresh, code in it runs, links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.make_docs import PAGES, ROOT

from makeway.cli.check import check_texts
from makeway.cli.main import NAMES

WRITTEN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_a_generated_page_is_fresh(path: Path) -> None:
    written = path.read_text(encoding="utf-8") if path.exists() else ""

    assert written == PAGES[path](), "run `make docs`"


@pytest.mark.parametrize("command", NAMES)
def test_every_command_is_documented(command: str) -> None:
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

    assert f"## `makeway {command}" in reference


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_python_in_a_page_runs(path: Path) -> None:
    for block in PYTHON_BLOCK.findall(path.read_text(encoding="utf-8")):
        done = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_readme_shows_what_its_python_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = PYTHON_BLOCK.findall(readme)

    done = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, cwd=ROOT, check=True
    )

    assert done.stdout
    assert done.stdout in readme


def test_every_room_has_its_paragraph() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = architecture.split("## The rooms")[1].split("## Where do I change")[0]
    source = ROOT / "src" / "makeway"
    built = {path.stem for path in source.glob("*.py")} | {
        path.parent.name for path in source.glob("*/__init__.py")
    }

    missing = [
        room
        for room in sorted(built - {"__init__"})
        if f"`{room}`" not in rooms and f"`{room}.py`" not in rooms
    ]
    assert not missing, f"say in docs/architecture.md what {missing} are for"


def test_every_decision_is_linked() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert f"(decisions/{page.name})" in architecture


MISTAKEN = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: vision
spec:
  cohort: lab
  queueingStrategy: FIFO
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: spot
      resources:
      - name: cpu
        nominalQuota: plenty
"""


def test_the_readme_shows_errors_as_they_are() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    report = check_texts([("queues.yaml", MISTAKEN)])

    assert len(report.errors) == 2
    for finding in report.errors:
        assert f"\nerror: {finding}\n" in readme


TOPICS = ("flavor-order", "fallbacks", "preemption", "requeueing", "gangs")


@pytest.mark.parametrize("topic", TOPICS)
def test_the_yaml_of_a_topic_is_as_it_should_be(topic: str) -> None:
    text = (ROOT / "docs" / f"{topic}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    report = check_texts((f"{topic} {number}", block) for number, block in enumerate(blocks))

    assert blocks
    assert [*map(str, report.errors), *map(str, report.warnings)] == []


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    broken = [link for link in LINK.findall(text) if not (path.parent / link).exists()]

    assert not broken
