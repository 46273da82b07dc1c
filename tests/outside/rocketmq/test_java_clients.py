"""RocketMQ's own Java client, unmodified, sends and consumes through our broker.

`make rocketmq-test` runs them: Maven gets the client, javac compiles `java/Scenarios.java`.
"""

import subprocess
from pathlib import Path

import pytest

from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM
from tests.support.security.certificates import Authority

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


def handshakes_done(server: Server) -> int:
    """Return the number of TLS handshakes so far."""
    assert server.doors.tls is not None
    return server.doors.tls.handshakes.done


def test_the_java_client_sends_and_consumes_over_tls(classes: str, tmp_path: Path) -> None:
    store = {"ssl.keystore.location": str(Authority(tmp_path).sign().both)}
    enforced = {"rocketmq.tls.server.mode": "enforcing"}
    for settings, tls in ((store | enforced, "true"), (store, "true"), (store, "false")):
        with BrokerThread(SETTINGS | settings) as broker:
            port = broker.call(lambda server: server.listeners[1].port)
            played = subprocess.run(
                [
                    *JVM, f"-Duser.home={tmp_path}", f"-Dtls.enable={tls}", "-cp", classes,
                    "Scenarios", f"127.0.0.1:{port}", "consumes",
                ],
                capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
            )  # fmt: skip
            handshakes = broker.call(handshakes_done)
        assert "HOLDS consumes" in played.stdout, played.stdout[-3000:] + played.stderr[-3000:]
        assert (handshakes > 0) is (tls == "true"), "the client did as it was asked"


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
