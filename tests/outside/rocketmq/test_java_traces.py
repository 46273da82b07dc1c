"""RocketMQ's Java clients with `enableMsgTrace`, and its mqadmin 5.5.0, which shows the traces."""

import re
import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from tests.outside.rocketmq.conftest import CLIENTS
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, port_of

TRACES = "RMQ_SYS_TRACE_TOPIC"
QUEUES = 4
"""Those of a topic that a Java client creates by sending to it."""
SECONDS_MAX = 240


def java(folder: Path, path: str, *given: str) -> str:
    """Run a Java program; return its output. It must succeed."""
    played = subprocess.run(
        [*JVM, f"-Duser.home={folder}", "-cp", path, *given],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
        check=False, cwd=folder,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout[-3000:]
    return played.stdout


@pytest.mark.skipif(not has_maven(), reason="needs Maven and a JDK")
@pytest.mark.parametrize("version", CLIENTS)
def test_traces_of_a_message_are_stored_and_shown_by_mqadmin(version: str, tmp_path: Path) -> None:
    traced = compiled(tmp_path, libraries(version), "Traced.java")
    with BrokerThread(SETTINGS) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        (unique,) = re.findall(r"SENT (\w+)", java(tmp_path, traced, "Traced", address))
        with RemotingClient(port_of(broker)) as client:
            pulled = [client.pull(TRACES, queueId=queue) for queue in range(QUEUES)]
            bodies = [bytes(each.body) for answer in pulled for each in messages_in(answer)]
        mqadmin = (
            f"{libraries('5.5.0', 'mqadmin.xml')}/*",
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            "queryMsgTraceById",
        )
        shown = java(tmp_path, *mqadmin, "-n", address, "-i", unique, "-t", TRACES)
    kinds = {kind for body in bodies for kind in re.findall(rb"\b(Pub|SubBefore|SubAfter)\b", body)}
    assert kinds == {b"Pub", b"SubBefore", b"SubAfter"}
    assert all(unique.encode() in body for body in bodies)
    assert "#Type" in shown, shown
    assert re.search(r"^Pub +PG_traced .*success", shown, re.MULTILINE), shown
    assert re.search(r"^Sub +CG_traced .*success", shown, re.MULTILINE), shown
