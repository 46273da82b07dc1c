"""Streams that read a Kafka topic: routes that lead to it, its log, records as messages."""

from typing import TYPE_CHECKING

import pytest

from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import Offset
from headrace.queue_stores.log.message_reader import MessageReader
from headrace.queue_stores.queue_settings import ExchangeTopic, Published, QueueSettings, QueueType
from headrace.queue_stores.record_messages import HEADERS_BYTES_MAX, messages_in
from headrace.queue_stores.stream.durable_stream import DurableStream
from headrace.queues.model.declarations import DeclaredQueue, ExchangeFlags, QueueFlags
from headrace.queues.model.exchange_types.amqp import FANOUT
from headrace.queues.model.exchanges import Destination, Exchange
from headrace.queues.model.routing import StoredRoute
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.permissions.access import Permission
from headrace.queues.refusals import KAFKA_TOPIC, RefusalKind, Refused
from headrace.record.batch import build, new_record
from headrace.wire.amqp.frames import FRAME_BYTES_MIN
from headrace.wire.amqp.properties import property_of
from tests.support.log.log import NOW_MS
from tests.support.queues.log import PLACE, message
from tests.support.queues.streams import FIRST, LAST, Stream
from tests.support.queues.virtual_hosts import (
    ME,
    bind,
    exchange,
    queue,
    to_exchange,
    to_queue,
    virtual_host,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def reads(host: VirtualHost, name: str, topic: str, key_header: str | None = None) -> None:
    """Have a stream in a vhost that reads a topic."""
    settings = QueueSettings(QueueType.STREAM, topic=ExchangeTopic(topic, key_header))
    host.add_queue(DeclaredQueue(name, True, False, None, {}, settings))


# Routes


def test_in_routes_its_topic_stands_for_a_stream() -> None:
    host = virtual_host()
    reads(host, "s", "t")
    queue(host, "q")
    assert host.router.route("", "s") == ("\nt",)
    assert isinstance(host.router.route("", "s"), StoredRoute)
    assert host.router.route("", "q", None, ["s", "none"]) == ("\nt", "q")
    assert host.router.route("", "q") == ("q",)
    assert not isinstance(host.router.route("", "q", None, ["q"]), StoredRoute)
    bind(host, to_queue("amq.fanout", "s"), to_queue("amq.fanout", "q"))
    assert host.router.route("amq.fanout", "k") == ("\nt", "q")
    host.remove_queue("s")
    assert host.router.route("amq.fanout", "k") == ("q",)
    assert host.router.route("", "s") == ()
    queue(host, "s")
    assert host.router.route("", "s") == ("s",)


def test_a_topic_is_in_a_route_once_whoever_leads_to_it() -> None:
    host = virtual_host()
    for name, topic, header in (("a", "t", None), ("b", "t", "id"), ("c", "u", None)):
        reads(host, name, topic, header)
        bind(host, to_queue("amq.fanout", name))
    assert host.router.route("amq.fanout", "k") == ("\nt", "\nu")
    keyed = {"x-headrace-topic": "t", "x-headrace-key-header": "id"}
    host.add_exchange(Exchange("stored", FANOUT, arguments=keyed))
    bind(host, to_exchange("amq.fanout", "stored"))
    assert host.router.route("amq.fanout", "k") == ("\nt\nid", "\nu")


def test_without_topics_there_is_no_such_stream() -> None:
    host = virtual_host()
    arguments = {"x-queue-type": "stream", "x-headrace-topic": "t"}
    with pytest.raises(Refused, match="nothing is stored here"):
        queue(host, "s", arguments, durable=True)
    assert host.queues == {}
    assert host.router.read_topics == {}


# Who may have messages come to a topic


class NoWrites:
    """Permits all but to write to a topic. `Access`."""

    def check(self, permission: Permission, kind: str, name: str) -> None:
        if kind == KAFKA_TOPIC and permission is Permission.WRITE:
            raise Refused(RefusalKind.ACCESS_REFUSED, "", name)

    def check_topic(self, permission: Permission, exchange: str, routing_key: str) -> None:
        """Permit it."""


def far_from_a_topic() -> VirtualHost:
    """Exchanges `e0` to `e3`, each in front of the next one, and `e3` of a stream of the topic."""
    host = virtual_host()
    reads(host, "s", "t")
    queue(host, "q")
    for number in range(4):
        exchange(host, f"e{number}", "fanout", {"alternate-exchange": "e2"} if number == 1 else {})
    bind(host, to_queue("e3", "s", "never"), to_exchange("e2", "e3"), to_exchange("e0", "e1"))
    bind(host, to_exchange("e3", "e2"), to_queue("e0", "q"))
    return host


@pytest.mark.parametrize("name", ["e0", "e1", "e2", "e3"])
def test_who_may_not_write_to_a_topic_sends_it_nothing_at_any_remove(name: str) -> None:
    """Nobody is asked when a letter is dead, so who has them sent there is."""
    host = far_from_a_topic()
    with pytest.raises(Refused, match=r"^t$"):
        host.bind(to_exchange("amq.fanout", name), ME, NoWrites())
    dead = {"x-dead-letter-exchange": name}
    with pytest.raises(Refused, match=r"^t$"):
        host.declare_queue("dying", QueueFlags(), dead, ME, NoWrites())
    behind = {"alternate-exchange": name}
    with pytest.raises(Refused, match=r"^t$"):
        host.declare_exchange("before", "fanout", ExchangeFlags(), behind, NoWrites())


def test_where_no_topic_is_behind_an_exchange_nobody_is_asked_for_one() -> None:
    host = far_from_a_topic()
    host.bind(to_queue("e0", "q", "more"), ME, NoWrites())
    host.bind(to_exchange("e0", "amq.topic"), ME, NoWrites())
    for name in ("", "amq.topic", "none yet"):
        dead = {"x-dead-letter-exchange": name}
        host.declare_queue(f"dying {name}", QueueFlags(), dead, ME, NoWrites())
    with pytest.raises(Refused, match=r"^t$"):
        host.bind(to_queue("amq.fanout", "s"), ME, NoWrites())
    host.unbind(to_queue("e3", "s", "never"), ME, NoWrites())
    host.bind(to_exchange("amq.fanout", "e3"), ME, NoWrites())


def test_a_topic_of_an_exchange_is_behind_those_bound_to_it_too() -> None:
    host = virtual_host()
    host.add_exchange(Exchange("stored", FANOUT, arguments={"x-headrace-topic": "t"}))
    exchange(host, "front")
    bind(host, to_exchange("front", "stored"))
    dead = {"x-dead-letter-exchange": "front"}
    with pytest.raises(Refused, match=r"^t$"):
        host.declare_queue("dying", QueueFlags(), dead, ME, NoWrites())


def test_where_there_are_no_topics_nobodys_bindings_are_looked_through() -> None:
    host = virtual_host()
    exchange(host, "front")
    host.exchanges["front"].bindings = None  # type: ignore[assignment]
    assert not host.router.topics_behind(Destination("exchange", "front"))


def test_who_may_not_read_is_not_told_whether_a_topic_is_there() -> None:
    class NoReads(NoWrites):
        def check(self, permission: Permission, kind: str, name: str) -> None:
            if kind == KAFKA_TOPIC:
                raise Refused(RefusalKind.ACCESS_REFUSED, "", name)

    arguments = {"x-queue-type": "stream", "x-headrace-topic": "t"}
    with pytest.raises(Refused, match=r"^t$"):
        virtual_host().declare_queue("s", QueueFlags(True), arguments, ME, NoReads())


# Its log


def test_it_keeps_no_messages_and_asks_for_no_log() -> None:
    here = Stream(make_log=False)
    settings = QueueSettings(QueueType.STREAM, topic=ExchangeTopic("t"))
    declared = DeclaredQueue("s", True, False, None, {}, settings)
    store = DurableStream.of_topic(here.logs, "/", declared, 0, here.make_partition())
    store.want_log()
    assert here.asked == []
    assert store.log is not None
    with pytest.raises(HeadraceError, match="keeps no messages"):
        store.log.append(Published(message("x")), None)
    holds = here.world.directory.holds
    assert holds._holders == {}, "its retention is the topic's affair"
    store.drop()
    assert PLACE in here.world.directory.logs
    assert holds._holders == {}


def test_a_partition_that_cannot_be_had_gives_nothing(caplog: pytest.LogCaptureFixture) -> None:
    here = Stream(make_log=False)
    settings = QueueSettings(QueueType.STREAM, topic=ExchangeTopic("t"))
    declared = DeclaredQueue("s", True, False, None, {}, settings)
    error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone")
    store = DurableStream.of_topic(here.logs, "/", declared, 0, error)
    store.want_log()
    assert (here.asked, store.log, store.ready) == ([], None, 0)
    kept: list[bool] = []
    store.when_stored(kept.append)
    assert kept == [False]
    assert "stream 's' (vhost '/') cannot be read until the broker is restarted" in caplog.text


GONE = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its file is gone")


def two_alike() -> tuple[Stream, Log]:
    """A stream, and a copy of its log elsewhere, as a move between directories makes one."""
    here, elsewhere = Stream(), Stream()
    for stream in (here, elsewhere):
        for body in ("a", "b"):
            stream.published(body)
    return here, elsewhere.partition.log


@pytest.mark.parametrize("moved", [True, False])
def test_a_stretch_that_a_log_which_moved_did_not_give_is_read_again(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, copy = two_alike()
    asked: list[Callable[[HeadraceError, bool], None]] = []
    with monkeypatch.context() as waiting:
        waiting.setattr(MessageReader, "read", lambda *asking: asked.append(asking[3]))
        reader = here.read(FIRST)
    if moved:
        here.partition.log = copy
    (have,) = asked
    have(GONE, True)
    here.run()
    assert here.log.error is (None if moved else GONE)
    assert reader.bodies == (["a", "b"] if moved else [])


@pytest.mark.parametrize("moved", [True, False])
def test_where_to_begin_is_looked_for_again_in_a_log_that_moved(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, copy = two_alike()
    asked: list[Callable[[HeadraceError], None]] = []
    with monkeypatch.context() as waiting:
        waiting.setattr(here.world.disk, "run", lambda work, done: asked.append(done))
        reader = here.consume(LAST)
    if moved:
        here.partition.log = copy
    (have,) = asked
    have(GONE)
    here.run()
    assert here.log.error is (None if moved else GONE)
    assert reader.bodies == (["b"] if moved else [])


def test_a_failure_in_the_log_that_a_topic_moved_to_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    here, copy = two_alike()
    here.partition.log = copy
    asked: list[Callable[[HeadraceError, bool], None]] = []
    with monkeypatch.context() as waiting:
        waiting.setattr(MessageReader, "read", lambda *asking: asked.append(asking[3]))
        here.read(FIRST)
    (have,) = asked
    have(GONE, True)
    here.run()
    assert here.log.error is GONE


def test_a_log_that_moved_begins_and_ends_where_it_does_now() -> None:
    here, elsewhere = Stream(), Stream()
    here.published("a")
    for body in ("a", "b", "c"):
        elsewhere.published(body)
    here.partition.log = elsewhere.partition.log
    assert here.log.end == 3
    elsewhere.partition.log.delete_records(Offset(1))
    assert here.log.start == 1


def test_a_streams_own_log_is_held_against_nothing_and_ends_behind_what_is_appended() -> None:
    here = Stream()
    (holders,) = here.world.directory.holds._holders.values()
    assert len(holders) == 1
    here.published("a")
    here.log.append(Published(message("b")), None)
    assert here.log.end == 2


# Records


def headers_of(*headers: tuple[str, bytes | None]) -> object:
    found = messages_in(build([new_record(b"x", b"k", NOW_MS, list(headers))]), 0)
    (only,) = found.messages
    assert property_of(only.header, "delivery_mode") == 2
    return property_of(only.header, "headers")


def test_a_kafka_records_headers_are_those_of_its_message() -> None:
    assert headers_of() is None
    assert headers_of(("a", b"1"), ("b", None), ("a", b"2")) == {"a": "2", "b": None}
    assert headers_of(("", b"1"), ("x" * 256, b"1")) is None
    assert headers_of(("x" * 255, b"1")) == {"x" * 255: "1"}
    assert headers_of(("amqp.exchange", b"e"), ("amqp.routing.key", b"r")) is None


def test_headers_that_a_frame_may_have_no_room_for_are_left_out() -> None:
    room = HEADERS_BYTES_MAX - len("a") - 6
    assert headers_of(("a", bytes(room))) == {"a": "\0" * room}
    assert headers_of(("a", bytes(room + 1))) is None
    found = messages_in(build([new_record(b"x", b"k", NOW_MS, [("a", bytes(room))])]), 0)
    offset = len("x-stream-offset") + 10
    frame = 8
    assert frame + len(found.messages[0].header) + offset <= FRAME_BYTES_MIN


def test_neighbours_with_and_without_headers_have_their_own() -> None:
    records = [
        new_record(b"x", b"k", NOW_MS, headers) for headers in ([("a", b"1")], [], [("a", b"2")])
    ]
    found = messages_in(build(records), 0)
    told = [property_of(each.header, "headers") for each in found.messages]
    assert told == [{"a": "1"}, None, {"a": "2"}]
