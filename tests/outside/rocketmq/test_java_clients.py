"""RocketMQ's own Java client, unmodified, sends and consumes through our broker.

`make rocketmq-test` runs them: Maven gets the client, javac compiles `java/Scenarios.java`.
"""

import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM

SCENARIOS = (
    "sends", "consumes", "tags", "sql", "shares", "orderly", "litepull", "continues", "retries",
    "delays", "recalls", "transactions",
)  # fmt: skip
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
    "rocketmq.recall.message.enable": "true",
    "rocketmq.transaction.timeout.ms": "1000",
    "rocketmq.transaction.check.interval.ms": "1000",
}
SECONDS_MAX = 240


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_java_client_plays_its_scenario(classes: str, scenario: str, tmp_path: Path) -> None:
    if scenario == "recalls" and "4.9.7" in classes:
        pytest.skip("4.9.7 has no recall")
    with BrokerThread(SETTINGS) as broker:
        port = broker.call(lambda server: server.listeners[1].port)
        played = subprocess.run(
            [
                *JVM, f"-Duser.home={tmp_path}", "-cp", classes, "Scenarios", f"127.0.0.1:{port}",
                scenario,
            ],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
    assert f"HOLDS {scenario}" in played.stdout, played.stdout[-3000:] + played.stderr[-3000:]
