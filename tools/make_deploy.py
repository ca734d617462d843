"""Make what lies in deploy/ beside the CRDs, and the package's own copy of those.

    python tools/make_deploy.py

The objects come from makeway.deploy, as `makeway install` prints them; the CRDs from
tools/make_crds.py. The copy is what an installed wheel has.
"""

from pathlib import Path

from makeway.api.manifests import write_yaml
from makeway.deploy.installation import Site, controller, namespace, policies

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
CRDS = DEPLOY / "crds"
COPIES = ROOT / "src" / "makeway" / "deploy" / "crds"
HEAD = "# Made by tools/make_deploy.py from src/makeway/deploy; change that.\n"


def files() -> dict[Path, str]:
    """Text by path."""
    site = Site()
    definitions = sorted(CRDS.glob("*.yaml"))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [*(f"crds/{file.name}" for file in definitions), "makeway.yaml"],
    }
    objects = (namespace(site), *policies(site), *controller(site))
    return {
        DEPLOY / "makeway.yaml": HEAD + write_yaml(*objects),
        DEPLOY / "kustomization.yaml": HEAD + write_yaml(kustomization),
        **{COPIES / file.name: file.read_text(encoding="utf-8") for file in definitions},
    }


def stale() -> list[Path]:
    """Copies of what is no longer there."""
    return [file for file in COPIES.glob("*.yaml") if not (CRDS / file.name).exists()]


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    for path in stale():
        path.unlink()


if __name__ == "__main__":
    main()
