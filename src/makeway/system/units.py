"""What systemd is told: two services, and the port that is held for one of them.

Whatever a service says of itself holds for its children, and jobs are children of the starter: so
its unit takes nothing away. The server's takes away all that it can do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from makeway.system.paths import Paths
from makeway.system.settings import SystemSettings, pages_port

STARTER, SERVER, SOCKET = "makeway-starter.service", "makeway.service", "makeway.socket"

_STARTER = """\
[Unit]
Description=Makeway: starts jobs as the accounts that submitted them

[Service]
Type=notify
ExecStart={command} --part starter
Restart=on-failure
RestartSec=1
# Jobs are its children, and go on without it.
KillMode=process
Delegate=yes
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=1024:1048576
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
"""

_SERVER = """\
[Unit]
Description=Makeway: queues, and an API for every account
Requires={starter} {socket}
After={starter} {socket}

[Service]
Type=notify
ExecStart={command} --part server
User={account}
Group={account}
Restart=on-failure
RestartSec=1
TimeoutStartSec=120
WatchdogSec=60
LimitNOFILE=1048576
UMask=0077
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={data} {run}
ProtectHome=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

_SOCKET = """\
[Unit]
Description=Makeway: the ports of its API and pages, held while it is away

[Socket]
{ports}
Backlog=512

[Install]
WantedBy=sockets.target
"""


def units(paths: Paths, settings: SystemSettings, python: Path) -> Mapping[str, str]:
    """The text of each unit, by its name."""
    command = f"{python} -P -m makeway.cli.main up --system"
    if paths.root != Path("/"):
        command += f" --root {paths.root}"
    # The server takes them in this order.
    ports = [settings.port, pages_port(settings, settings.port)]
    said = {
        "command": command,
        "account": settings.server_account,
        "data": paths.data,
        "run": paths.run,
        "starter": STARTER,
        "socket": SOCKET,
        "ports": "\n".join(f"ListenStream=127.0.0.1:{port}" for port in ports if port is not None),
    }
    texts = {STARTER: _STARTER, SERVER: _SERVER, SOCKET: _SOCKET}
    return {name: text.format(**said) for name, text in texts.items()}
