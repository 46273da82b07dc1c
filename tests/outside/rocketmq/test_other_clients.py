"""Clients in Go and JavaScript, unmodified, send and consume through our broker.

`make rocketmq-test` runs them: Go's proxy and npm get the clients.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.support.rocketmq.kit import SETTINGS, port_of

CLIENTS = Path(__file__).parent
SECONDS_MAX = 240


def played(command: list[str], home: Path, *, topic: str = "") -> str:
    """Return what a client prints when it plays its scenario against a broker with a topic."""
    with BrokerThread(SETTINGS) as broker:
        if topic:
            broker.create_topics(topic, partitions=4)
        done = subprocess.run(
            [*command, f"127.0.0.1:{port_of(broker)}"],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
            env=os.environ | {"HOME": str(home)},
        )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("go"), reason="needs Go")
def test_the_go_client_plays_its_scenario(tmp_path: Path) -> None:
    client = tmp_path / "client"
    subprocess.run(["go", "build", "-o", client, "."], cwd=CLIENTS / "go", check=True, timeout=600)
    assert "HOLDS" in played([str(client)], tmp_path)


@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js and npm")
def test_the_javascript_client_plays_its_scenario(tmp_path: Path) -> None:
    for name in ("package.json", "client.js"):
        shutil.copy(CLIENTS / "node" / name, tmp_path)
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=tmp_path, check=True, timeout=600)
    # Its producer does not ask for the route of TBW102, so it creates no topics.
    assert "HOLDS" in played(["node", str(tmp_path / "client.js")], tmp_path, topic="Orders")
