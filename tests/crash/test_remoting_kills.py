"""kill -9 under RocketMQ clients: each SEND_OK message is pulled, no answered offset is lost."""

import os
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.stored_messages import PulledMessage
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.rocketmq.client import RemotingClient, messages_in

KILLS = 40 if os.environ.get("HEADRACE_LONG") else 3
"""`make crash` kills more often."""
TOPIC = "ridden"
NAMED = {"consumerGroup": "CG", "topic": TOPIC, "queueId": 0}


@dataclass
class Answered:
    """The bodies and the offset that the broker has acknowledged."""

    sent: list[tuple[bytes, int]] = field(default_factory=list)
    """Body and offset of each message that was SEND_OK."""
    offset: int = -1
    attempts: int = 0

    def send(self, port: int) -> None:
        """Send messages until the connection ends, several in flight."""
        with suppress(OSError), RemotingClient(port) as client:
            while True:
                flying = {}
                for _ in range(8):
                    self.attempts += 1
                    body = b"%d" % self.attempts
                    flying[client.ask_send(TOPIC, body)] = body
                for opaque, body in flying.items():
                    answer = client.answer(opaque)
                    if answer.code == ResponseCode.SUCCESS:
                        self.sent.append((body, int((answer.fields or {})["queueOffset"])))

    def commit(self, port: int) -> None:
        """Store growing offsets until the connection ends."""
        with suppress(OSError), RemotingClient(port) as client:
            offset = self.offset
            while True:
                offset += 1
                answer = client.call(
                    RequestCode.UPDATE_CONSUMER_OFFSET, NAMED | {"commitOffset": offset}
                )
                if answer.code == ResponseCode.SUCCESS:
                    self.offset = offset


def pulled(client: RemotingClient) -> list[PulledMessage]:
    """Return all messages of the queue."""
    found: list[PulledMessage] = []
    while True:
        answer = client.pull(TOPIC, found[-1].queue_offset + 1 if found else 0)
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += messages_in(answer)


def test_acknowledged_messages_and_offsets_survive_kills(tmp_path: Path) -> None:
    port, remoting = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},ROCKETMQ://127.0.0.1:{remoting}"
    broker = BrokerProcess(tmp_path, port, listeners=listeners)
    answered, chance = Answered(), random.Random(20261129)
    broker.start()
    try:
        with RemotingClient(remoting) as client:
            client.send(TOPIC, b"0")
        for _ in range(KILLS):
            before = len(answered.sent), answered.offset
            riders = [
                threading.Thread(target=ride, args=(remoting,))
                for ride in (answered.send, answered.commit)
            ]
            for rider in riders:
                rider.start()
            deadline = time.monotonic() + 60
            while len(answered.sent) < before[0] + 200 or answered.offset < before[1] + 20:
                assert time.monotonic() < deadline, broker.output[-2000:]
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.1))
            broker.kill()
            for rider in riders:
                rider.join()
            broker.start()
            with RemotingClient(remoting) as client:
                stored = {message.queue_offset: message.body for message in pulled(client)}
                assert {offset: stored[offset] for _, offset in answered.sent} == {
                    offset: body for body, offset in answered.sent
                }
                found = client.call(RequestCode.QUERY_CONSUMER_OFFSET, NAMED)
                assert int((found.fields or {})["offset"]) >= answered.offset
                sent = [body for body in stored.values() if body != b"0"]
                assert len(sent) == len(set(sent)), "no message is stored twice"
    finally:
        broker.stop()
