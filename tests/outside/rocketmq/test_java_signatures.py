"""RocketMQ's Java client 5.5.0 with `AclClientRPCHook`: its signatures are accepted, others not.

The hook of 4.9.7 is in a library of its own, which is not fetched; it signs in the same way.
"""

import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0",
    "rocketmq.access.keys": "orders:12345678",
}


@pytest.mark.skipif(not has_maven(), reason="needs Maven and a JDK")
def test_the_java_client_signs_and_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classes = compiled(tmp_path, libraries("5.5.0"), "Kit.java", "Signed.java")
    with BrokerThread(SETTINGS) as broker:
        port = broker.call(lambda server: server.listeners[1].port)
        for secret, holds in (("12345678", True), ("12345679", False)):
            played = subprocess.run(
                [
                    *JVM, f"-Duser.home={tmp_path}", "-cp", classes, "Signed",
                    f"127.0.0.1:{port}", "orders", secret,
                ],
                capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            said = played.stdout[-3000:] + played.stderr[-3000:]
            assert ("HOLDS signed" in played.stdout) is holds, said
            assert ('reason="wrong signature"' in caplog.text) is not holds
