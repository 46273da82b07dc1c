"""RocketMQ's own Java client over TLS, on a listener that requires it and on one that serves both.

`python -m tests.outside.rocketmq` plays the client's other scenarios.
"""

import subprocess
from pathlib import Path

from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM
from tests.support.rocketmq.kit import SETTINGS, port_of
from tests.support.security.certificates import Authority

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
            played = subprocess.run(
                [
                    *JVM, f"-Duser.home={tmp_path}", f"-Dtls.enable={tls}", "-cp", classes,
                    "Scenarios", f"127.0.0.1:{port_of(broker)}", "push", "Orders",
                ],
                capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
            )  # fmt: skip
            handshakes = broker.call(handshakes_done)
        assert "HOLDS push" in played.stdout, played.stdout[-3000:] + played.stderr[-3000:]
        assert (handshakes > 0) is (tls == "true"), "the client did as it was asked"
