"""Where a Makeway for every account keeps its things; below another root for those who test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    root: Path = Path("/")

    @property
    def etc(self) -> Path:
        """Root's: settings, nodes, Configuration; everybody may read them."""
        return self.root / "etc/makeway"

    @property
    def settings(self) -> Path:
        return self.etc / "settings.yaml"

    @property
    def nodes(self) -> Path:
        return self.etc / "nodes.yaml"

    @property
    def configuration(self) -> Path:
        return self.etc / "config.yaml"

    @property
    def state(self) -> Path:
        """Root's: pods, their homes and their output."""
        return self.root / "var/lib/makeway"

    @property
    def data(self) -> Path:
        """The server's: its database and keys."""
        return self.state / "server"

    @property
    def logs(self) -> Path:
        """Root's; the server reads there what pods print."""
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """Root's; the server puts the socket there that everybody may open."""
        return self.root / "run/makeway"

    @property
    def socket(self) -> Path:
        """Where everybody may ask the server."""
        return self.run / "api.sock"

    @property
    def ca(self) -> Path:
        """The server's certificate, for its clients."""
        return self.run / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """Root's, for everybody to read."""
        return self.etc / "kubeconfig"

    @property
    def starter_run(self) -> Path:
        """Root's; the server gets there, and nobody else."""
        return self.root / "run/makeway-starter"

    @property
    def starter_socket(self) -> Path:
        return self.starter_run / "starter.sock"

    @property
    def closed(self) -> Path:
        """Root's, for the server: which accounts are locked or have expired."""
        return self.starter_run / "closed.json"

    @property
    def starter_log(self) -> Path:
        return self.state / "starter.log"
