"""Scenarios of RocketMQ's C++ client through PyPI's rocketmq: scenarios.py ADDRESS SCENARIO TOPIC.

Status 0: it holds. The client's core is librocketmq; the Python around it calls its C functions.
"""

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Not installed where types are checked.
client: Any = importlib.import_module("rocketmq.client")
ffi: Any = importlib.import_module("rocketmq.ffi")
ADDRESS, SCENARIO, TOPIC = sys.argv[1:4]
SECONDS_MAX = 60
RUNNING: list[Any] = []
"""Consumers: one that nothing refers to is shut down."""


def group(name: str) -> str:
    """Return a consumer group's name."""
    return f"CG_{name}_{TOPIC}"


def producer() -> Any:
    """Return a producer that is started."""
    made = client.Producer("PG", timeout=20_000)
    made.set_namesrv_addr(ADDRESS)
    made.start()
    return made


def message(tag: str, key: str, body: str) -> Any:
    """Return a message to send."""
    made = client.Message(TOPIC)
    made.set_tags(tag)
    made.set_keys(key)
    made.set_body(body)
    return made


class Got:
    """Messages that a consumer has got, in their order: bodies, with what was asked of each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bodies: list[str] = []
        self.seen: list[Any] = []

    def add(self, received: Any) -> None:
        """Add a message; its fields are gone when the callback ends."""
        with self.lock:
            self.bodies.append(received.body.decode())
            self.seen.append(
                (
                    received.tags, received.keys, received.id, received.queue_id,
                    received.reconsume_times, received["colour"], time.monotonic(),
                )
            )  # fmt: skip

    def wait(self, count: int) -> list[str]:
        """Return the bodies: exactly so many, also 1.5 s after the last came."""
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.bodies) < count and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1.5)
        assert len(self.bodies) == count, f"{count} messages, {self.bodies}"
        return self.bodies

    def clear(self) -> None:
        """Forget them."""
        with self.lock:
            self.bodies, self.seen = [], []


def consumes(
    name: str,
    expression: str = "*",
    *,
    instance: str = "",
    topic: str = TOPIC,
    fails: bool = False,
    **options: Any,
) -> tuple[Any, Got]:
    """Start a push consumer; `fails`: it sends each message back."""
    got = Got()
    consumer = client.PushConsumer(group(name), **options)
    consumer.set_namesrv_addr(ADDRESS)
    consumer.set_instance_name(instance or name)

    def _take(_: Any, received: Any) -> Any:
        got.add(client.RecvMessage(received))
        kind = ffi._CConsumeStatus.RECONSUME_LATER if fails else ffi._CConsumeStatus.CONSUME_SUCCESS
        return kind.value

    # PushConsumer.subscribe answers success for a callback that raises: ctypes drops the error.
    client.ffi_check(ffi.dll.Subscribe(consumer._handle, topic.encode(), expression.encode()))
    consumer._register_callback(_take)
    consumer.start()
    RUNNING.append(consumer)
    return consumer, got


def sync_send() -> None:
    sending = producer()
    for body in ("first", "größe", "x" * 100_000):
        sent = sending.send_sync(message("A", "k", body))
        assert sent.status == client.SendStatus.OK
        assert sent.msg_id
        assert sent.offset >= 0
    _, got = consumes("sync")
    assert sorted(got.wait(3)) == sorted(["first", "größe", "x" * 100_000])


def async_send() -> None:
    sending = producer()
    sent: list[Any] = []
    failed: list[Any] = []
    messages = [message("A", "k", str(number)) for number in range(50)]
    for each in messages:
        sending.send_async(each, sent.append, failed.append)
    deadline = time.monotonic() + SECONDS_MAX
    while len(sent) + len(failed) < 50 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (len(sent), failed) == (50, []), f"{len(sent)} sent, {failed[:3]}"
    _, got = consumes("async")
    assert len(set(got.wait(50))) == 50


def one_way_send() -> None:
    sending = producer()
    for number in range(10):
        sending.send_oneway(message("A", "k", str(number)))
    # Behind them on the connection: a new group begins at the end of a queue that is empty when
    # the consumer asks for its offset, and has messages when it asks for the end.
    sending.send_sync(message("A", "k", "last"))
    _, got = consumes("oneway")
    assert len(set(got.wait(11))) == 11


def batch_send() -> None:
    sending = producer()
    sent = sending.send_batch([message("AB"[n % 2], "k", str(n)) for n in range(10)])
    assert sent.status == client.SendStatus.OK
    _, got = consumes("batch")
    assert len(set(got.wait(10))) == 10


def push() -> None:
    sending = producer()
    red = message("B", "k2", "größe")
    red.set_property("colour", "red")
    identity = sending.send_sync(red).msg_id
    _, got = consumes("push")
    assert got.wait(1) == ["größe"]
    assert got.seen[0][:3] == (b"B", b"k2", identity)
    assert got.seen[0][4:6] == (0, b"red")
    sending.send_sync(message("A", "k3", "later"))
    assert got.wait(2)[1] == "later"


def pull() -> None:
    sending = producer()
    for number in range(12):
        sending.send_sync(message("AB"[number % 2], "k", str(number)))
    for expression, count in (("*", 12), ("A", 6)):
        consumer = client.PullConsumer(group(f"pull{count}"))
        consumer.offset_table = {}
        consumer.set_namesrv_addr(ADDRESS)
        consumer.start()
        got = {bytes(received.body) for received in consumer.pull(TOPIC, expression)}
        assert len(got) == count, got


def orderly() -> None:
    sending = producer()
    for number in range(100):
        sending.send_orderly(message("A", "k", str(number)), number % 4)
    _, got = consumes("orderly", orderly=True)
    bodies = got.wait(100)
    for queue in range(4):
        numbers = [int(body) for body in bodies if int(body) % 4 == queue]
        assert numbers == sorted(numbers)


def tags() -> None:
    sending = producer()
    for tag in ("A", "B", "C", "AaAa", "BBBB"):
        sending.send_sync(message(tag, "k", tag))
    _, got = consumes("ab", "A || B")
    _, same = consumes("hash", "AaAa")
    assert sorted(got.wait(2)) == ["A", "B"]
    assert same.wait(1) == ["AaAa"]


def shared_group() -> None:
    sending = producer()
    sending.send_sync(message("A", "k", "0"))
    _, first = consumes("shared", instance="one")
    _, second = consumes("shared", instance="two")
    time.sleep(25)  # the client rebalances every 20 s
    first.clear()
    second.clear()
    for number in range(100):
        sending.send_sync(message("A", "k", str(number)))
    deadline = time.monotonic() + 30
    while len(first.bodies) + len(second.bodies) < 100 and time.monotonic() < deadline:
        time.sleep(0.1)
    queues = [{seen[3] for seen in got.seen} for got in (first, second)]
    assert all(queues), queues
    assert not queues[0] & queues[1], queues
    assert sorted(first.bodies + second.bodies) == sorted(map(str, range(100)))


def returning_group() -> None:
    sending = producer()
    for number in range(20):
        sending.send_sync(message("A", "k", f"first{number}"))
    consumer, got = consumes("returns", instance="one")
    got.wait(20)
    time.sleep(6)  # its offsets are stored every 5 s
    consumer.shutdown()
    for number in range(20):
        sending.send_sync(message("A", "k", f"away{number}"))
    _, got = consumes("returns", instance="two")
    assert all(body.startswith("away") for body in got.wait(20)), got.bodies


def broadcasting() -> None:
    sending = producer()
    sending.send_sync(message("A", "k", "0"))
    model = ffi.MessageModel.BROADCASTING
    _, first = consumes("broadcasting", instance="one", message_model=model)
    _, second = consumes("broadcasting", instance="two", message_model=model)
    time.sleep(5)
    first.clear()
    second.clear()
    for number in range(20):
        sending.send_sync(message("A", "k", str(number)))
    assert len(set(first.wait(20))) == 20
    assert len(set(second.wait(20))) == 20


def retries() -> None:
    """The operator has limited the group to one retry."""
    sending = producer()
    sent = sending.send_sync(message("A", "key", "poison"))
    _, got = consumes("retries", fails=True)
    assert got.wait(2) == ["poison", "poison"]
    assert [seen[4] for seen in got.seen] == [0, 1]
    _, letters = consumes("letters", topic=f"%DLQ%{group('retries')}")
    assert letters.wait(1) == ["poison"]
    assert letters.seen[0][1:3] == (b"key", sent.msg_id)


def delays() -> None:
    sending = producer()
    sending.send_sync(message("A", "k", "first"))
    _, got = consumes("delays")
    got.wait(1)
    began = time.monotonic()
    late = message("A", "k", "level")
    late.set_delay_time_level(2)
    sending.send_sync(late)
    sending.send_sync(message("A", "k", "now"))
    assert got.wait(3) == ["first", "now", "level"]
    assert got.seen[2][6] - began >= 5


SCENARIOS: dict[str, Callable[[], None]] = {
    play.__name__.replace("_", "-"): play
    for play in (
        sync_send, async_send, one_way_send, batch_send, push, pull, orderly, tags, shared_group,
        returning_group, broadcasting, retries, delays,
    )
}  # fmt: skip

if __name__ == "__main__":
    try:
        SCENARIOS[SCENARIO]()
    except Exception as failed:  # noqa: BLE001 - the client's threads would go on
        print(f"BROKEN {SCENARIO}: {failed!r}", flush=True)
        os._exit(1)
    print(f"HOLDS {SCENARIO}", flush=True)
    os._exit(0)
