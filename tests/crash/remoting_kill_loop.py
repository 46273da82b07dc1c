"""kill -9 under RocketMQ's delays, retries, transactions and offsets: `-m tests.crash.…`.

A kill between a delivery and the note of it delivers a second time, so a message that waited is in
its topic once, or once more for each kill meanwhile; a dead letter and a plain message once. None
is early, nothing that was rolled back is seen, and no offset is older than the last one answered.
At the end all doors show one sum: pulls, Kafka's consumers with read_committed, and the columns
that Spark reads.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

import headrace.arrow
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.stored_messages import PulledMessage
from headrace.wire.rocketmq.topic_names import kafka_name
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.rocketmq.client import RemotingClient, messages_in

SOURCE, DELAYED, DECIDED = "source", "delayed", "decided"
GROUP = "CG"
RETRIED, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
TOPICS = (SOURCE, DELAYED, DECIDED, RETRIED, DEAD)
ONCE = (SOURCE, DEAD)
"""Topics in which no message is twice: nothing waits before it is there."""
OFFSETS = {"consumerGroup": GROUP, "topic": SOURCE, "queueId": 0}
COMMIT, ROLLBACK = 8, 12
FLYING = 4
QUIET_SECONDS = 2.0
"""Seconds without a new message after which none waits: longer than any delay and question."""
PROGRESS_SECONDS_MAX = 90
KINDS = ("delayed", "sent back", "decided", "offsets")


@dataclass
class Work:
    """Requests that the broker has acknowledged, by kind."""

    chance: random.Random
    delayed: dict[str, float] = field(default_factory=dict)
    """Body: the time in ms before which it must not be stored."""
    dead: list[str] = field(default_factory=list)
    retried: dict[str, float] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    """Messages that are left to be asked about."""
    offset: int = -1
    offsets: int = 0
    born_in: dict[str, int] = field(default_factory=dict)
    """Body: the number of kills before it was sent."""
    kills: int = 0
    number: int = 0
    problems: list[str] = field(default_factory=list)

    def body(self) -> str:
        """Return a new body."""
        self.number += 1
        body = f"{threading.get_ident()}-{self.number}"
        self.born_in[body] = self.kills
        return body

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

    def commit_offsets(self, client: RemotingClient) -> None:
        """Store growing offsets."""
        offset = self.offset + 1
        answer = client.call(RequestCode.UPDATE_CONSUMER_OFFSET, OFFSETS | {"commitOffset": offset})
        if answer.code == ResponseCode.SUCCESS:
            self.offset, self.offsets = offset, self.offsets + 1

    def answered(self) -> list[int]:
        """Return how much of each kind is answered, in the order of `KINDS`."""
        decided = len(self.committed) + len(self.rolled_back)
        return [len(self.delayed), len(self.dead) + len(self.retried), decided, self.offsets]


@dataclass(frozen=True)
class Verdict:
    """Contents of the topics, compared with the acknowledged requests."""

    kills: int
    answered: list[int]
    twice: int
    """Messages that are in their topics a second time, as the rules allow."""
    sums: dict[str, int]
    problems: list[str]
    seconds: float

    def __str__(self) -> str:
        counted = ", ".join(
            f"{kind} {count}" for kind, count in zip(KINDS, self.answered, strict=True)
        )
        sums = ", ".join(f"{topic} {count}" for topic, count in self.sums.items())
        return (
            f"{self.kills} kills in {self.seconds:.0f} s: answered {counted}; again after a kill"
            f" {self.twice}; at all doors {sums}; problems {len(self.problems)}"
            f" {self.problems[:3]}"
        )


def pulled(client: RemotingClient, topic: str) -> list[PulledMessage]:
    """Return all messages of the queue of a topic."""
    found: list[PulledMessage] = []
    while True:
        offset = found[-1].queue_offset + 1 if found else 0
        answer = client.pull(topic, offset, consumerGroup="CG_judge", maxMsgNums=1000)
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += messages_in(answer)


def ridden(port: int, work: Callable[[RemotingClient], None]) -> None:
    """Do a work again and again until the connection ends."""
    with suppress(OSError), RemotingClient(port) as client:
        while True:
            work(client)


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
        (DELAYED, work.delayed), (DEAD, work.dead), (RETRIED, work.retried),
        (DECIDED, [*work.committed, *work.open]),
    ]  # fmt: skip
    return {
        f"{topic}: {body} is lost"
        for topic, names in wanted
        for body in set(names) - {message.body.decode() for message in pulled(client, topic)}
    }


class Ride:
    """A broker that is killed again and again under clients."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.port, self.remoting = free_port(), free_port()
        self.directory = directory
        self.broker = BrokerProcess(
            directory,
            self.port,
            listeners=(f"PLAINTEXT://127.0.0.1:{self.port},ROCKETMQ://127.0.0.1:{self.remoting}"),
            rocketmq_transaction_timeout_ms=100,
            rocketmq_transaction_check_interval_ms=200,
            rocketmq_transaction_check_max=10_000,
            rocketmq_disk_max_used_percent=100,
        )
        self.chance = random.Random(seed)
        self.work = Work(self.chance)

    def ride(self, kills: int, least: int) -> Verdict:
        """Kill the broker; before each kill `least` of each kind are answered."""
        began = time.monotonic()
        self.broker.start()
        try:
            with RemotingClient(self.remoting) as client:
                for topic in (SOURCE, DELAYED, DECIDED):
                    client.send(topic, b"first")
            for _ in range(kills):
                self._ride_once(least)
            with RemotingClient(self.remoting) as client:
                lost = self._settled(client)
                twice = self._check(client)
                sums = self._doors(client)
        finally:
            self.broker.stop()
        work = self.work
        problems = [*work.problems, *sorted(lost)]
        return Verdict(kills, work.answered(), twice, sums, problems, time.monotonic() - began)

    def _ride_once(self, least: int) -> None:
        work, before = self.work, self.work.answered()
        riders = [
            threading.Thread(target=ridden, args=(self.remoting, ride))
            for ride in (work.delay, work.send_back, work.decide, work.commit_offsets)
        ]
        for rider in riders:
            rider.start()
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while min(map(sub, work.answered(), before)) < least:
            assert time.monotonic() < deadline, self.broker.output[-2000:]
            time.sleep(0.01)
        time.sleep(self.chance.uniform(0, 0.1))
        self.broker.kill()
        for rider in riders:
            rider.join()
        work.kills += 1
        self.broker.start()
        with RemotingClient(self.remoting) as client:
            self._check_offset(client)

    def _check_offset(self, client: RemotingClient) -> None:
        while True:
            answer = client.call(RequestCode.QUERY_CONSUMER_OFFSET, OFFSETS)
            if answer.code != ResponseCode.SERVICE_NOT_AVAILABLE:
                break
            time.sleep(0.01)  # it is loading
        found = int((answer.fields or {}).get("offset", -1))
        if not self.work.offset <= found <= self.work.offset + 1:
            self.work.problems.append(f"offset {found} after {self.work.offset} was answered")
        self.work.offset = found

    def _settled(self, client: RemotingClient) -> set[str]:
        """Wait until nothing is missing; return what still is."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while (lost := missing(client, self.work)) and time.monotonic() < deadline:
            time.sleep(0.1)
        # What was not answered may be delivered, too: it must not come while doors are compared.
        sizes: list[object] = []
        since = time.monotonic()
        while time.monotonic() < since + QUIET_SECONDS:
            commit_what_is_asked(client)
            named = ({"topic": topic, "queueId": 0} for topic in TOPICS)
            now = [client.call(RequestCode.GET_MAX_OFFSET, each).fields for each in named]
            if now != sizes:
                sizes[:], since = now, time.monotonic()
            time.sleep(0.1)
        return lost

    def _check(self, client: RemotingClient) -> int:
        """Note what is early, rolled back or too often; return how much is twice."""
        work, twice = self.work, 0
        for topic in TOPICS:
            found = pulled(client, topic)
            counted = Counter(message.body.decode() for message in found)
            due = {DELAYED: work.delayed, RETRIED: work.retried}.get(topic, {})
            work.problems += [
                f"{topic}: {message.body.decode()} is early"
                for message in found
                if message.stored_at_ms < due.get(message.body.decode(), 0) - 1
            ]
            for body, count in counted.items():
                kills = 0 if topic in ONCE else work.kills - work.born_in.get(body, work.kills)
                if count > 1 + kills:
                    work.problems.append(f"{topic}: {body} is there {count} times")
                twice += count - 1
            if topic == DECIDED:
                seen = counted.keys() & set(work.rolled_back)
                work.problems += [f"{body} is seen, and was rolled back" for body in seen]
        return twice

    def _doors(self, client: RemotingClient) -> dict[str, int]:
        """Note topics that do not have the same bodies at all doors; return their numbers."""
        sums = {}
        for topic in TOPICS:
            by_pull = sorted(message.body for message in pulled(client, topic))
            by_kafka = sorted(consumed(self.port, kafka_name(topic)))
            opened = headrace.arrow.open(str(self.directory / "log"), kafka_name(topic))
            by_arrow = sorted(opened.read_all().column("value").to_pylist())
            if not by_pull == by_kafka == by_arrow:
                self.work.problems.append(
                    f"{topic}: {len(by_pull)} pulled, {len(by_kafka)} by Kafka, {len(by_arrow)}"
                    " by columns"
                )
            sums[topic] = len(by_pull)
        return sums


def consumed(port: int, topic: str) -> list[bytes]:
    """Return the committed values of a topic of one partition, as Kafka's consumers read them."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}", "group.id": "judge",
            "isolation.level": "read_committed", "enable.partition.eof": True,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while (record := consumer.poll(20)) is not None and record.error() is None:
        found.append(record.value() or b"")
    consumer.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"remoting kill loop: {arguments.kills} kills, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-remoting-kill-") as directory:
        verdict = Ride(Path(directory), arguments.seed).ride(arguments.kills, 40)
    print(verdict)
    return bool(verdict.problems)


if __name__ == "__main__":
    sys.exit(main())
