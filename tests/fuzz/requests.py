"""Requests made up from the OpenAPI documents of a running `makeway up` (schemathesis).

    python -m tests.fuzz.requests path/to/schemathesis [EXAMPLES]

Whatever is asked, the answer is no failure of the server's own (5xx) and comes in time, and it
serves afterwards. Nothing that is created this way runs: the node has room for no pod.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests.harness.process import Up

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: full}
status: {capacity: {cpu: "0", memory: "0", pods: "0"}}
"""
EXAMPLES = 15
ANSWER_MAX_S, GROUP_MAX_S = 10, 120
# Documents of groups; what is not an object (discovery, logs of pods) is asked for elsewhere.
GROUPS = ("api/v1", "apis/batch/v1", "apis/kueue.x-k8s.io/v1beta2", "apis/policy/v1")
# A watch has no end, and would be taken for an answer that doesn't come.
SETTINGS = """
[parameters]
watch = false
"query.watch" = false
"query.follow" = false
timeoutSeconds = 1
"""


def asked(up: Up, token: str, path: str) -> bytes:
    request = urllib.request.Request(f"{up.address}/{path}")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=ANSWER_MAX_S, context=up.tls()) as answer:
        found: bytes = answer.read()
    return found


def play(folder: Path, program: str, examples: int) -> int:
    """The number of groups in which something failed."""
    (folder / "nodes.yaml").write_text(NODE)
    (folder / "schemathesis.toml").write_text(SETTINGS)
    up = Up(folder / "data", "--nodes", str(folder / "nodes.yaml"))
    up.start()
    failed = 0
    try:
        token = (up.folder / "pki" / "token").read_text().strip()
        for group in GROUPS:
            document = folder / "openapi.json"
            document.write_bytes(asked(up, token, f"openapi/v3/{group}"))
            failed += not _try(folder, document, program, up.address, token, examples)
            assert asked(up, token, "readyz") == b"ok"
    finally:
        up.stop()
    return failed


def _try(folder: Path, document: Path, program: str, address: str, token: str, count: int) -> bool:
    operations = sum(len(path) for path in json.loads(document.read_text())["paths"].values())
    command = [program, "--config-file", "schemathesis.toml", "run", str(document)]
    command += ["--url", address, "--tls-verify=false", "--no-color"]
    command += ["-H", f"Authorization: Bearer {token}"]
    command += ["--checks=not_a_server_error", "--phases=examples,coverage,fuzzing", "--seed=1"]
    command += [f"--max-examples={count}", f"--request-timeout={ANSWER_MAX_S}"]
    command += ["--continue-on-failure", "--generation-unique-inputs", "--warnings=off"]
    command += ["--suppress-health-check=all", f"--max-time={GROUP_MAX_S}"]
    print(f"{operations} paths and verbs", flush=True)
    return subprocess.run(command, cwd=folder).returncode == 0


if __name__ == "__main__":
    program, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        failures = play(
            Path(name), str(Path(program).resolve()), int(more[0]) if more else EXAMPLES
        )
    sys.exit(1 if failures else 0)
