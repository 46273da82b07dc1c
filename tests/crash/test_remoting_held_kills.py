"""kill -9 under delays, retries and transactions: each message is delivered, and none early.

A kill between a delivery and the note of it delivers a second time, so a message is there once or
twice. Dead letters and rollbacks are counted, too: a letter that was answered is there, a message
that was rolled back never is.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.stored_messages import PulledMessage
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.rocketmq.client import RemotingClient, messages_in

KILLS = 40 if os.environ.get("HEADRACE_LONG") else 3
"""`make crash` kills more often."""
SOURCE, DELAYED, DECIDED = "source", "delayed", "decided"
GROUP = "CG"
COMMIT, ROLLBACK = 8, 12
FLYING = 4
ROUND = 40
"""Messages of each kind that are answered before a kill."""
SECONDS_MAX = 90


@dataclass
class Work:
    """The acknowledged messages by kind."""

    chance: random.Random
    delayed: dict[str, float] = field(default_factory=dict)
    """Body: the time in ms before which it must not be stored."""
    dead: list[str] = field(default_factory=list)
    retried: dict[str, float] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """Messages that are left to be asked about."""
    number: int = 0

    def body(self) -> str:
        """Return a new body."""
        self.number += 1
        return f"{threading.get_ident()}-{self.number}"

    def delay(self, client: RemotingClient) -> None:
        """Send delayed messages."""
        flying = {}
        for _ in range(FLYING):
            body, ms = self.body(), self.chance.randrange(400)
            properties = f"UNIQ_KEY\x01{body}\x02TIMER_DELAY_MS\x01{ms}\x02"
            due_ms = time.time() * 1000 + ms
            flying[client.ask_send(DELAYED, body.encode(), i=properties)] = body, due_ms
        for opaque, (body, due_ms) in flying.items():
            if client.answer(opaque).code == ResponseCode.SUCCESS:
                self.delayed[body] = due_ms

    def send_back(self, client: RemotingClient) -> None:
        """Send a message, then send it back: to be retried, or as a dead letter."""
        body = self.body()
        sent = client.send(SOURCE, body.encode(), i=f"UNIQ_KEY\x01{body}\x02")
        is_dead = self.chance.random() < 0.5
        began_ms = time.time() * 1000
        answer = client.call(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {
                "group": GROUP, "offset": int((sent.fields or {})["msgId"][-16:], 16),
                "delayLevel": -1 if is_dead else 1, "maxReconsumeTimes": 16,
            },
        )  # fmt: skip
        if answer.code == ResponseCode.SUCCESS and is_dead:
            self.dead.append(body)
        elif answer.code == ResponseCode.SUCCESS:
            self.retried[body] = began_ms + 1000

    def decide(self, client: RemotingClient) -> None:
        """Send an undecided message, and commit it, roll it back, or leave it."""
        body = self.body()
        properties = f"UNIQ_KEY\x01{body}\x02TRAN_MSG\x01true\x02PGROUP\x01PG\x02"
        sent = client.send(DECIDED, body.encode(), i=properties, f=4)
        if sent.code != ResponseCode.SUCCESS:
            return
        decision = self.chance.choice((COMMIT, ROLLBACK, 0))
        if not decision:
            self.open.append(body)
            return
        named = {
            "producerGroup": "PG", "commitOrRollback": decision,
            "commitLogOffset": int((sent.fields or {})["msgId"][-16:], 16),
        }  # fmt: skip
        answer = client.call(RequestCode.END_TRANSACTION, named)
        if answer.code == ResponseCode.SUCCESS:
            (self.committed if decision == COMMIT else self.rolled_back).append(body)

    def answered(self) -> list[int]:
        """Return how much of each kind is answered."""
        decided = len(self.committed) + len(self.rolled_back)
        return [len(self.delayed), len(self.dead) + len(self.retried), decided]


def ridden(port: int, work: Callable[[RemotingClient], None]) -> None:
    """Do a work again and again until the connection ends."""
    with suppress(OSError), RemotingClient(port) as client:
        while True:
            work(client)


def pulled(client: RemotingClient, topic: str) -> list[PulledMessage]:
    """Return all messages of the queue of a topic."""
    found: list[PulledMessage] = []
    while True:
        offset = found[-1].queue_offset + 1 if found else 0
        answer = client.pull(topic, offset, consumerGroup=GROUP)
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += messages_in(answer)


def bodies(client: RemotingClient, topic: str) -> Counter[str]:
    """Return how often each body is in a topic."""
    return Counter(message.body.decode() for message in pulled(client, topic))


def commit_what_is_asked(client: RemotingClient) -> None:
    """Commit the messages about which the broker has asked so far."""
    client.produces("p", "PG")
    asked, client.notified = client.notified, []
    for question in asked:
        named = dict(question.fields or {})
        client.one_way(
            RequestCode.END_TRANSACTION,
            {
                "producerGroup": "PG", "commitLogOffset": named["commitLogOffset"],
                "tranStateTableOffset": named["tranStateTableOffset"],
                "commitOrRollback": COMMIT,
            },
        )  # fmt: skip


def missing(client: RemotingClient, work: Work) -> set[str]:
    """Return the messages that are not where they should be yet."""
    commit_what_is_asked(client)
    wanted = [
        (DELAYED, work.delayed), (f"%DLQ%{GROUP}", work.dead), (f"%RETRY%{GROUP}", work.retried),
        (DECIDED, [*work.committed, *work.open]),
    ]  # fmt: skip
    return {body for topic, names in wanted for body in set(names) - bodies(client, topic).keys()}


def test_held_messages_survive_kills_and_are_never_early(tmp_path: Path) -> None:
    port, remoting = free_port(), free_port()
    broker = BrokerProcess(
        tmp_path,
        port,
        listeners=f"PLAINTEXT://127.0.0.1:{port},ROCKETMQ://127.0.0.1:{remoting}",
        rocketmq_transaction_timeout_ms=100,
        rocketmq_transaction_check_interval_ms=200,
        rocketmq_transaction_check_max=10_000,
    )
    chance = random.Random(20261129)
    work = Work(chance)
    broker.start()
    try:
        with RemotingClient(remoting) as client:
            for topic in (SOURCE, DELAYED, DECIDED):
                client.send(topic, b"first")
        for _ in range(KILLS):
            before = work.answered()
            riders = [
                threading.Thread(target=ridden, args=(remoting, ride))
                for ride in (work.delay, work.send_back, work.decide)
            ]
            for rider in riders:
                rider.start()
            deadline = time.monotonic() + SECONDS_MAX
            while min(map(sub, work.answered(), before)) < ROUND:
                assert time.monotonic() < deadline, broker.output[-2000:]
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.1))
            broker.kill()
            for rider in riders:
                rider.join()
            broker.start()
        with RemotingClient(remoting) as client:
            deadline = time.monotonic() + SECONDS_MAX
            while missing(client, work):
                assert time.monotonic() < deadline, (missing(client, work), broker.output[-2000:])
                time.sleep(0.1)
            check(client, work)
    finally:
        broker.stop()


def check(client: RemotingClient, work: Work) -> None:
    """Check that nothing is early, that nothing rolled back is seen, and count the doubles."""
    for topic, due in ((DELAYED, work.delayed), (f"%RETRY%{GROUP}", work.retried)):
        for message in pulled(client, topic):
            body = message.body.decode()
            assert message.stored_at_ms >= due.get(body, 0) - 1, (topic, body)
    seen = bodies(client, DECIDED)
    assert not seen.keys() & set(work.rolled_back)
    for topic in (DELAYED, f"%RETRY%{GROUP}", DECIDED, SOURCE):
        counted = bodies(client, topic)
        assert max(counted.values()) <= 2, counted.most_common(3)
    assert max(bodies(client, SOURCE).values()) == 1
