"""Make what lies in deploy/, and how kustomize finds the CRDs, which lie in the package.

    python -m tools.make_deploy

The objects come from makeway.deploy, as `makeway install` prints them; the CRDs from
tools/make_crds.py.
"""

from pathlib import Path

from tools.make_crds import FOLDER as CRDS

from makeway.api.manifests import write_yaml
from makeway.deploy.installation import Site, controller, namespace, policies

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
HEAD = "# Made by tools/make_deploy.py from src/makeway/deploy; change that.\n"


def files() -> dict[Path, str]:
    """Text by path. Outside its own folder kustomize takes only folders that say what is theirs."""
    site = Site()
    objects = (namespace(site), *policies(site), *controller(site))
    definitions = [f"crds/{file.name}" for file in sorted(CRDS.glob("*.yaml"))]
    return {
        DEPLOY / "makeway.yaml": HEAD + write_yaml(*objects),
        DEPLOY / "kustomization.yaml": _kustomization("../src/makeway/deploy", "makeway.yaml"),
        CRDS.parent / "kustomization.yaml": _kustomization(*definitions),
    }


def _kustomization(*resources: str) -> str:
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }
    return HEAD + write_yaml(document)


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
