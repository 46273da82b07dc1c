"""One copier: a process of its own, to be killed at any moment.

`python -m tests.chaos.copier BOOTSTRAP NAME NOTES`: takes records from the source topic, copies
each to one of two topics, and commits its group's offsets with the copies; every tenth transaction
it gives up on purpose. Notes are written before and after each end. Ends with status 0 at SIGTERM,
with `LIBRARY_WAITS` where the library waits for nothing (see there).
"""

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

SOURCE, EVEN, ODD = "source", "copies-even", "copies-odd"
GROUP = "copiers"
SOURCES = 4
COPIES = 2
"""Partitions of the topics."""
RECORDS_MAX = 20
ABORTED_OF = 10
TIMEOUT_SECONDS = 20.0
LIBRARY_WAITS = 4
"""The status of a copier whose library waits with nothing asked of any broker.

After AddOffsetsToTxn is answered, librdkafka 2.16 looks for the group's coordinator, and goes on
only when a connection comes up or goes down: where the answer to FindCoordinator is lost with its
connection and no other connection changes, `send_offsets_to_transaction` never returns (the time
limit of that step, `creq_ts_timeout`, is set and never read). A request that a broker leaves
unanswered is another thing: it ends after `socket.timeout.ms`, which with this transaction's
timeout is 9.9 s, and so does the call."""
LOOK_SECONDS = 5.0
LOOKS_MAX = 9
"""How often a call may be seen waiting: longer than any request and the transaction can last.

Counted in looks, not by the clock, which goes on while the copier is stopped."""
QUICK: dict[str, Any] = {
    # While its only broker is away librdkafka 2.16 begins anew, and then waits for ever in
    # send_offsets_to_transaction on the broker it has given up.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}


def messages_of(consumer: Consumer, messages_max: int, seconds: float) -> Iterator[Message]:
    """Yield the messages of `seconds`; print errors, which the consumer retries, to stderr."""
    for message in consumer.consume(messages_max, seconds):
        if error := message.error():
            place = f"{message.topic()}-{message.partition()}"
            print(f"{time.time():.3f} {place}: {error}", file=sys.stderr, flush=True)
        else:
            yield message


class Copier:
    def __init__(self, bootstrap: str, name: str, notes: str) -> None:
        self._notes = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._incarnation = f"{name}.{uuid.uuid4().hex[:8]}"
        self._count = 0
        self._stopping = False
        self._consumer = Consumer(
            QUICK
            | {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 20,
            }
        )
        self._producer = Producer(
            QUICK
            | {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 0,
            }
        )
        signal.signal(signal.SIGTERM, self._stop)
        faulthandler.register(signal.SIGUSR1)  # prints the calls of its threads
        self._sending = threading.Event()
        threading.Thread(target=self._end_if_it_waits, daemon=True).start()

    def _end_if_it_waits(self) -> None:
        """End the process when offsets are being sent for longer than anything can last."""
        looks, count = 0, -1
        while looks < LOOKS_MAX:
            time.sleep(LOOK_SECONDS)
            looks = looks + 1 if self._sending.is_set() and count == self._count else 0
            count = self._count
        print(f"{time.time():.3f} the library waits in send_offsets_to_transaction, with nothing"
              " asked", file=sys.stderr, flush=True)  # fmt: skip
        os._exit(LIBRARY_WAITS)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def note(self, transaction: str, what: str, **more: object) -> None:
        """One line in one write: what a kill leaves behind are whole lines."""
        line = json.dumps({"transaction": transaction, "what": what} | more) + "\n"
        os.write(self._notes, line.encode())

    def run(self) -> None:
        self._producer.init_transactions(TIMEOUT_SECONDS * 2)
        # With a callback of ours the group's next generation waits until nothing of the last one is
        # in our hands; without one the library moves on behind our back.
        self._consumer.subscribe([SOURCE], on_revoke=lambda *_: None)
        while not self._stopping:
            taken = list(messages_of(self._consumer, random.randint(1, RECORDS_MAX), 0.2))
            if taken:
                self._copy(taken)
        self._consumer.close()

    def _copy(self, taken: list[Message]) -> None:
        self._count += 1
        transaction = f"{self._incarnation}-{self._count}"
        try:
            self._producer.begin_transaction()
            positions = self._send(transaction, taken)
            self._send_offsets(positions)
            if self._count % ABORTED_OF:
                self.note(transaction, "commit?", copies=len(taken))
                self._commit(transaction)
                self.note(transaction, "committed")
            else:
                self._give_up(transaction)
        except KafkaException as problem:
            error: Any = problem.args[0]
            if error.fatal() or not error.txn_requires_abort():
                raise
            self._give_up(transaction, asked=True)

    def _send(self, transaction: str, taken: list[Message]) -> list[Place]:
        following: dict[int, int] = {}
        for message in taken:
            partition, offset = message.partition() or 0, message.offset() or 0
            following[partition] = offset + 1
            self._producer.produce(
                ODD if offset % 2 else EVEN,
                f"{partition} {offset} {transaction}".encode(),
                partition=partition % COPIES,
            )
        return [Place(SOURCE, index, offset) for index, offset in following.items()]

    def _send_offsets(self, positions: list[Place]) -> None:
        self._sending.set()
        try:
            self._producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), TIMEOUT_SECONDS
            )
        finally:
            self._sending.clear()

    def _commit(self, transaction: str) -> None:
        """Until it is known: a commit that timed out is asked for again, never given up."""
        while True:
            try:
                self._producer.commit_transaction(TIMEOUT_SECONDS)
                return
            except KafkaException as problem:
                error: Any = problem.args[0]
                if not error.retriable():
                    raise

    def _give_up(self, transaction: str, asked: bool = False) -> None:
        while True:
            try:
                self._producer.abort_transaction(TIMEOUT_SECONDS)
                break
            except KafkaException as problem:
                error: Any = problem.args[0]
                if not error.retriable():
                    raise
        # Where the commit was asked for before, only the topics can say how it ended.
        self.note(transaction, "given up" if asked else "aborted")
        self._rewind()

    def _rewind(self) -> None:
        """Go on where the group's offsets say."""
        for place in self._consumer.committed(self._consumer.assignment(), TIMEOUT_SECONDS):
            if place.offset < 0:
                place.offset = OFFSET_BEGINNING
            self._consumer.seek(place)


def main() -> int:
    bootstrap, name, notes = sys.argv[1:]
    copier = Copier(bootstrap, name, notes)
    try:
        copier.run()
    except KafkaException as problem:
        print(f"{time.time():.3f} {name}: {problem}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
