"""RocketMQ's own Java consumer while an operator resets its offsets, switches it off, adds queues.

`java/Operated.java` says when the operator acts; here the operator is a client by frames.
"""

import subprocess
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.outside.rocketmq.jvm import JVM
from tests.support.cluster.broker_cluster import until
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import SETTINGS, code, fields, made, port_of

TOPIC, QUEUES, GROUP = "Orders", 2, "CG_operated"


def has_stored(client: RemotingClient) -> bool:
    """Return whether the group's offsets are behind the last message: clients send them late."""
    for queue in range(QUEUES):
        named = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue}
        answers = [client.call(number, named) for number in (14, 30)]
        if len({fields(answer).get("offset") for answer in answers}) != 1:
            return False
    return True


def act(client: RemotingClient, what: str) -> None:
    """Do what the program asks for."""
    verb, _, argument = what.partition(" ")
    if verb == "reset":
        until(lambda: has_stored(client), "the group's offsets are stored")
        answer = client.call(
            222, {"group": GROUP, "topic": TOPIC, "timestamp": argument, "isForce": "true"}
        )
    elif verb in ("off", "on"):
        enabled = "true" if verb == "on" else "false"
        body = f'{{"groupName":"{GROUP}","consumeEnable":{enabled}}}'
        answer = client.call(200, {}, body.encode())
    else:
        assert verb == "grow"
        answer = client.call(17, {"topic": TOPIC, "readQueueNums": 6, "writeQueueNums": 6})
    assert code(answer) is ResponseCode.SUCCESS, answer.remark


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("reset-by-time", {}),
        ("reset-by-time", {"rocketmq.server.side.reset": "false"}),
        ("switched-off", {}),
        ("grows", {}),
        ("grows", {"rocketmq.zero.offset.rule": "new-queue"}),
    ],
    ids=["reset", "reset-by-push", "switched-off", "grows", "grows-by-new-queue"],
)
def test_the_java_consumer_follows_its_operator(
    classes: str, scenario: str, settings: dict[str, str], tmp_path: Path
) -> None:
    with (
        BrokerThread(SETTINGS | settings) as broker,
        RemotingClient(port_of(broker)) as operator,
    ):
        made(operator, TOPIC, QUEUES)
        words = [
            *JVM, f"-Duser.home={tmp_path}", "-cp", classes, "Operated",
            f"127.0.0.1:{port_of(broker)}", scenario,
        ]  # fmt: skip
        said: list[str] = []
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        ) as program:  # fmt: skip
            assert program.stdin is not None
            assert program.stdout is not None
            try:
                for line in program.stdout:
                    said.append(line)
                    if line.startswith("DO "):
                        act(operator, line.removeprefix("DO ").strip())
                        program.stdin.write("done\n")
                        program.stdin.flush()
            finally:
                program.kill()
    assert f"HOLDS {scenario}\n" in said, "".join(said)[-4000:]
