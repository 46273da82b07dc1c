"""RocketMQ's Java clients with `enableMsgTrace`, and its mqadmin 5.5.0, which shows the traces."""

import re
import subprocess
import time
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
KINDS = {b"Pub", b"SubBefore", b"SubAfter"}
SECONDS_MAX = 60


def java(folder: Path, path: str, *given: str) -> list[str]:
    """Return the command of a Java program."""
    return [*JVM, f"-Duser.home={folder}", "-cp", path, *given]


def stored_traces(client: RemotingClient) -> list[bytes]:
    """Return the bodies of the topic of traces, as soon as there is one of each kind."""
    deadline = time.monotonic() + SECONDS_MAX
    bodies: list[bytes] = []
    while kinds(bodies) != KINDS and time.monotonic() < deadline:
        time.sleep(0.1)
        pulled = [client.pull(TRACES, queueId=queue) for queue in range(QUEUES)]
        bodies = [bytes(each.body) for answer in pulled for each in messages_in(answer)]
    return bodies


def kinds(bodies: list[bytes]) -> set[bytes]:
    """Return the kinds of traces in bodies."""
    return {kind for body in bodies for kind in re.findall(rb"\b(Pub|SubBefore|SubAfter)\b", body)}


@pytest.mark.skipif(not has_maven(), reason="needs Maven and a JDK")
@pytest.mark.parametrize("version", CLIENTS)
def test_traces_of_a_message_are_stored_and_shown_by_mqadmin(version: str, tmp_path: Path) -> None:
    traced = compiled(tmp_path, libraries(version), "Kit.java", "Traced.java")
    mqadmin = f"{libraries('5.5.0', 'mqadmin.xml')}/*"
    with BrokerThread(SETTINGS) as broker:
        address = f"127.0.0.1:{port_of(broker)}"
        with subprocess.Popen(
            java(tmp_path, traced, "Traced", address),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        ) as program:  # fmt: skip
            assert program.stdout is not None
            unique = next(line.split()[-1] for line in program.stdout if "SENT " in line)
            with RemotingClient(port_of(broker)) as client:
                bodies = stored_traces(client)
            program.communicate(timeout=SECONDS_MAX)
        shown = subprocess.run(
            java(
                tmp_path, mqadmin, "org.apache.rocketmq.tools.command.MQAdminStartup",
                "queryMsgTraceById", "-n", address, "-i", unique, "-t", TRACES,
            ),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX,
            check=True,
        ).stdout  # fmt: skip
    assert kinds(bodies) == KINDS
    assert all(unique.encode() in body for body in bodies)
    assert "#Type" in shown, shown
    assert re.search(r"^Pub +PG_traced .*success", shown, re.MULTILINE), shown
    assert re.search(r"^Sub +CG_traced .*success", shown, re.MULTILINE), shown
