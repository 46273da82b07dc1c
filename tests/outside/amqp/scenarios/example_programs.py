"""The programs of examples/rabbitmq, run as they are: each side a process of its own."""

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from examples.rabbitmq import confirms, orders, publish_subscribe, routing, topics, work_queue
from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.other_languages import installed
from tests.outside.amqp.scenarios.pika_sync.kit import channel
from tests.outside.kafka_tools import programs
from tests.outside.matrix.scenario import Scenarios, eventually
from tests.support.processes.process import wait_or_kill

ROOT = Path(__file__).parents[4]
GO = ROOT / "examples" / "rabbitmq" / "go"
READY = "waits for messages; Ctrl-C ends it"
SECONDS_MAX = 60
python = Scenarios("pika", "examples")
go = Scenarios("streadway", "examples")
celery = Scenarios("celery", "examples")
go_program = functools.cache(lambda: programs.go_program(GO))


class Program:
    """A program that runs, and the lines it has printed so far."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            self.lines.extend(line.rstrip("\n") for line in out)

    def wait_for(self, *lines: str) -> None:
        """Wait until it has printed these among others. AssertionError."""

        def _are_there() -> bool:
            return all(line in self.lines for line in lines)

        eventually(_are_there, f"{lines}; {self.lines}")

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
        self._reader.join()


@contextmanager
def _running(command: Sequence[str], **environment: str) -> Iterator[Program]:
    program = Program(command, **environment)
    try:
        yield program
    finally:
        program.kill()


def _command(name: str, address: Address, *words: str) -> list[str]:
    return [sys.executable, "-m", f"examples.rabbitmq.{name}", "--url", address.url, *words]


def _printed(command: Sequence[str], **environment: str) -> list[str]:
    """What a program prints until its end. AssertionError where that is none in time."""
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment,
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@contextmanager
def _left_clean(address: Address, *, queue: str = "", exchange: str = "") -> Iterator[Any]:
    """Programs that start; what they have declared is deleted at the end."""
    with ExitStack() as started, channel(address) as opened:
        try:
            yield started
        finally:
            started.close()
            if queue:
                opened.queue_delete(queue)
            if exchange:
                opened.exchange_delete(exchange)


def _start(started: ExitStack, command: Sequence[str]) -> Program:
    """Start what listens; returns when it does."""
    program: Program = started.enter_context(_running(command))
    program.wait_for(READY)
    return program


@python
def a_busy_worker_gets_no_second_task_and_a_dead_ones_is_done_by_another(address: Address) -> None:
    with _left_clean(address, queue=work_queue.QUEUE) as started:
        first = _start(started, _command("work_queue", address, "work"))
        _printed(_command("work_queue", address, "send", "wash=60"))
        first.wait_for("begins wash")
        second = _start(started, _command("work_queue", address, "work"))
        _printed(_command("work_queue", address, "send", "iron=0.1", "fold=0", "press=3"))
        second.wait_for("has done iron", "has done fold", "begins press")
        assert first.lines == [READY, "begins wash"]
        second.kill()
        third = _start(started, _command("work_queue", address, "work"))
        third.wait_for("begins press again", "has done press")


@python
def every_subscriber_hears_what_is_said_while_it_listens(address: Address) -> None:
    with _left_clean(address, exchange=publish_subscribe.EXCHANGE) as started:
        emit = _command("publish_subscribe", address, "emit")
        _printed([*emit, "too early"])
        listen = _command("publish_subscribe", address, "listen")
        listeners = [_start(started, listen) for _ in range(2)]
        _printed([*emit, "it rains", "it pours"])
        for listener in listeners:
            listener.wait_for("it rains", "it pours")
            assert listener.lines == [READY, "it rains", "it pours"]


@python
def colours_go_to_those_who_want_them(address: Address) -> None:
    with _left_clean(address, exchange=routing.EXCHANGE) as started:
        one = _start(started, _command("routing", address, "listen", "orange"))
        two = _start(started, _command("routing", address, "listen", "black", "green"))
        printed = _printed(
            _command("routing", address, "emit", "orange", "white", "black", "green")
        )
        told = ["orange is on its way", "nobody wants white"]
        assert printed == [*told, "black is on its way", "green is on its way"]
        one.wait_for("orange: something orange")
        two.wait_for("black: something black", "green: something green")
        assert (len(one.lines), len(two.lines)) == (2, 3)


@python
def eight_animals_are_sorted_by_the_words_of_their_keys(address: Address) -> None:
    with _left_clean(address, exchange=topics.EXCHANGE) as started:
        everything = _start(started, _command("topics", address, "listen", "#"))
        one = _start(started, _command("topics", address, "listen", "*.orange.*"))
        two = _start(started, _command("topics", address, "listen", "*.*.rabbit", "lazy.#"))
        _printed(_command("topics", address, "emit"))
        everything.wait_for(*topics.KEYS)
        assert everything.lines == [READY, *topics.KEYS]
        orange = ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"]
        rabbits = [key for key in topics.KEYS if key.startswith("lazy.")]
        rabbits.insert(0, "quick.orange.rabbit")
        for listener, keys in ((one, orange), (two, rabbits)):
            listener.wait_for(*keys)
            assert listener.lines == [READY, *keys]


@python
def words_are_counted_by_whoever_serves(address: Address) -> None:
    with ExitStack() as started:
        for _ in range(2):
            _start(started, _command("rpc", address, "serve"))
        for text, count in (("how many words are these", "5"), ("one", "1"), ("", "0")):
            assert _printed(_command("rpc", address, "call", text)) == [count]


@python
def a_publisher_learns_what_became_of_each_payment(address: Address) -> None:
    with _left_clean(address, queue=confirms.QUEUE):
        has, full = "the broker has it", "the queue is full"
        said = [has, has, has, full, full, "there is no queue for it"]
        expected = [f"payment {number}: {what}" for number, what in enumerate(said)]
        assert _printed(_command("confirms", address)) == expected


def orders_are_read_by_a_kafka_consumer(address: Address, bootstrap: str) -> None:
    """A play for brokers of both protocols: RabbitMQ has the first half only."""
    with _left_clean(address, queue=orders.QUEUE):
        placed = _printed(_command("orders", address, "place", "7", "8", "9"))
        assert placed == ["placed order 7", "placed order 8", "placed order 9"]
        read = _printed(_command("orders", address, "read", "-b", bootstrap, "--count", "3"))
        assert read == ["read order 7", "read order 8", "read order 9"]
        # Reading took nothing out of the queue.
        with channel(address) as opened:
            assert opened.queue_declare(orders.QUEUE, passive=True).method.message_count == 3


@celery
def the_shop_serves_its_customer(address: Address) -> None:
    """Retries, a time, priorities, an error and results, of tasks that waited for the worker."""
    environment = {"AMQP_URL": address.url, "AMQP_QUEUE": "shop-of-the-example"}
    worker = [sys.executable, "-m", "celery", "-A", "examples.rabbitmq.shop", "worker"]
    worker += ["--pool", "solo", "--loglevel", "WARNING", "--without-mingle"]
    customer = [sys.executable, "-m", "examples.rabbitmq.customer"]
    with (
        _left_clean(address, queue=environment["AMQP_QUEUE"]) as started,
        channel(address) as opened,
    ):
        asking = started.enter_context(_running(customer, **environment))

        def _asked() -> bool:
            queue = environment["AMQP_QUEUE"]
            opened_again = opened.connection.channel()
            try:
                return bool(
                    opened_again.queue_declare(queue, passive=True).method.message_count > 5
                )
            except Exception:  # noqa: BLE001 - not declared yet
                return False

        eventually(_asked, "the customer's tasks")
        working = started.enter_context(_running(worker, **environment))
        wait_or_kill(asking.process, SECONDS_MAX)
        asking.wait_for(
            "the total is 12",
            "packed: medicine, a gift, a letter",
            "the bank was asked 3 times",
            "no refund: order 7 was never paid",
        )
        assert asking.lines[-1].startswith("reminded after "), asking.lines
        working.process.terminate()
        wait_or_kill(working.process, 20)


@go
def workers_in_go_share_a_queue(address: Address) -> None:
    program = installed(go_program)
    with ExitStack() as started:
        work = [*program, address.url, "work", "go-tasks"]
        workers = [_start(started, work) for _ in range(2)]
        texts = ["x" * 100, "a", "b", "c"]
        _printed([*program, address.url, "send", "go-tasks", *texts])
        # Who has the long one gets no other until it is done.
        eventually(lambda: sum(len(worker.lines) for worker in workers) == 6, "all four tasks")
        assert sorted(len(worker.lines) for worker in workers) == [2, 4]


@go
def one_in_go_receives_what_another_sent_before(address: Address) -> None:
    program = installed(go_program)
    _printed([*program, address.url, "send", "go-hello", "Hello World!", "größer"])
    with _running([*program, address.url, "receive", "go-hello"]) as receiver:
        receiver.wait_for(READY, "Hello World!", "größer")


@go
def subscribers_in_go_get_what_they_have_bound(address: Address) -> None:
    program = installed(go_program)
    kinds = {
        "fanout": ([""], [""]),
        "direct": (["routing key1"], ["routing key2"]),
        "topic": (["*.orange.*"], ["*.*.rabbit", "lazy.#"]),
    }
    sent = {
        "fanout": {"": (1, 1)},
        "direct": {"routing key1": (1, 0), "routing key2": (0, 1), "routing key3": (0, 0)},
        "topic": {"lazy.brown.fox": (0, 1), "quick.orange.rabbit": (1, 1), "orange": (0, 0)},
    }
    for kind, bound in kinds.items():
        exchange = f"go-{kind}"
        with _left_clean(address, exchange=exchange) as started:
            subscribe = [*program, address.url, "subscribe", exchange, kind]
            listeners = [
                _start(started, [*subscribe, f"{exchange}-{number}", *keys])
                for number, keys in enumerate(bound)
            ]
            for key in sent[kind]:
                _printed([*program, address.url, "publish", exchange, kind, key, "hello"])
            for number, listener in enumerate(listeners):
                expected = [f"{key}: hello" for key, whom in sent[kind].items() if whom[number]]
                listener.wait_for(*expected)
                assert listener.lines == [READY, *expected]
