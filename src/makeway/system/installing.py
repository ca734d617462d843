"""A copy of this Makeway that is root's alone and that every account can run, without a network.

Root must not run what others can change, and the server's account must get at what it runs: neither
is true of a checkout in somebody's home. So Makeway, and what it needs, is copied from where it is
now into a virtual environment of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from makeway.system.modes import weak_spot
from makeway.system.preparing import SOURCE, NotPrepared

PYTHONS = "/usr/local/bin:/usr/bin:/bin"
MARK = ".made-by-makeway"  # in the folder; without it, it is not ours to remove
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def install_into(folder: Path) -> Path:
    """Make the copy anew; return its Python."""
    check_ours(folder)
    base, fresh = python_for_all(), folder.with_name(f"{folder.name}.new")
    if fresh.exists():
        check_ours(fresh)
        shutil.rmtree(fresh)
    fresh.mkdir(parents=True, mode=0o755)
    (fresh / MARK).touch()
    subprocess.run([base, "-m", "venv", "--without-pip", fresh], check=True)
    [sites] = fresh.glob("lib/*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "makeway", sites / "makeway", ignore=ignored)
    _copy_name_and_version(distribution("makeway"), sites)
    for found in needed("makeway"):
        _copy(found, sites)
    _make_roots(fresh)
    old = folder.with_name(f"{folder.name}.old")
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder / "bin" / "python"


def check_ours(folder: Path) -> None:
    """Refuse to touch what somebody else has put there."""
    if folder.exists() and not (folder / MARK).exists():
        raise NotPrepared(f"{folder} was not made by Makeway; move it away, or name another folder")


def python_for_all() -> Path:
    """A Python of our version that is root's, and that every account can run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own, usual = Path(sys.executable).resolve(), shutil.which(name, path=PYTHONS)
    for python in (own, *([Path(usual).resolve()] if usual else [])):
        if not weak_spot([python]) and all(_is_open(one) for one in (python, *python.parents)):
            return python
    raise NotPrepared(
        f"there is no {name} that is root's and that every account can run: {own} is not; install "
        f"the system's package for {name}"
    )


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IXOTH)


def needed(name: str) -> list[Distribution]:
    """What a package needs, and what that needs, as far as it is here; not the package itself."""
    found: dict[str, Distribution] = {}
    left = _requirements(name)
    while left:
        wanted = left.pop()
        try:
            one = distribution(wanted)
        except PackageNotFoundError:
            continue  # for another system or another Python
        if one.metadata["Name"] not in found:
            found[one.metadata["Name"]] = one
            left += _requirements(wanted)
    return list(found.values())


def _requirements(name: str) -> list[str]:
    """The names of what a package needs without its extras."""
    lines = distribution(name).requires or []
    return [_NAME.match(line)[0] for line in lines if "extra ==" not in line]  # type: ignore[index]


def _copy_name_and_version(found: Distribution, sites: Path) -> None:
    """What a package says of itself, whichever way it was installed here."""
    folder = sites / f"{found.metadata['Name']}-{found.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(found.read_text("METADATA") or "", encoding="utf-8")


def _copy(found: Distribution, sites: Path) -> None:
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
            continue  # a command of its own, which nobody needs here
        target = sites / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _make_roots(folder: Path) -> None:
    """Everybody reads it, and root alone writes."""
    for below, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(below, name)
            os.chown(path, 0, 0, follow_symlinks=False)
            if not path.is_symlink():
                is_run = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                path.chmod(0o755 if is_run else 0o644)
