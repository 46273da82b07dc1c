"""Topics as targets of routes: made once, found by their names, and no more kept than a bound."""

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import StoredDone
from headrace.queue_stores.queue_settings import ExchangeTopic, Published
from headrace.queues.engine import targets
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.targets import Targets, TopicTarget
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.exchange_topic import target_name
from headrace.testing.clock import SimClock
from headrace.wire.amqp.content import Message
from tests.support.queues.queues import message_of

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited


class Stored:
    """What is stored in one topic. `TopicStore`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.got: list[tuple[bytes, str | None]] = []

    def check(self, message: Message, key_header: str | None) -> None:
        """Take all."""

    def append(self, message: Message, key_header: str | None) -> None:
        self.got.append((message.body, key_header))

    def when_stored(self, done: StoredDone) -> None:
        done(True)


def topic(name: str, key_header: str | None = None) -> str:
    return target_name(ExchangeTopic(name, key_header))


def test_a_topic_is_made_a_target_once_and_found_by_the_name_in_a_route() -> None:
    here = Targets(Stored)
    target = here.topic(topic("orders", "id"))
    assert (target.store.topic, target.stored.key_header) == ("orders", "id")  # type: ignore[attr-defined]
    assert here.topic(topic("orders", "id")) is target
    assert here[topic("orders", "id")] is target
    assert here.topic(topic("orders")) is not target


@pytest.mark.parametrize(("store_of", "name"), [(Stored, "q"), (None, topic("orders"))])
def test_a_queue_that_is_not_there_is_no_topic_and_without_topics_nothing_is(
    store_of: Any, name: str
) -> None:
    with pytest.raises(KeyError):
        Targets(store_of)[name]


def test_beyond_a_bound_topics_are_made_anew_and_queues_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert targets.TOPICS_KEPT_MAX == 1024
    monkeypatch.setattr(targets, "TOPICS_KEPT_MAX", 2)
    here = Targets(Stored)
    queue: Any = object()
    here["q"] = queue
    first, second = here.topic(topic("a")), here.topic(topic("b"))
    assert here.topic(topic("a")) is first
    here.topic(topic("c"))
    assert set(here) == {"q", topic("c")}
    assert here.topic(topic("b")) is not second
    here.topic(topic("d"))
    assert set(here) == {"q", topic("d")}


def test_only_a_message_that_is_to_last_is_waited_for_until_its_topic_has_it() -> None:
    hosts = VirtualHosts(
        SimClock(),
        lambda: bytes(16),
        stores_in_memory(MemoryUse()),
    )
    (host,) = hosts.hosts.values()
    host.targets = Targets(Stored)
    numbers = count()
    for persistent in (False, True):
        awaited: Awaited = {}
        message = Published(message_of(f"{next(numbers)}"), persistent=persistent)
        assert host.publish([topic("orders", "id")], message, awaited)
        assert list(awaited) == ([host.targets.topic(topic("orders", "id"))] if persistent else [])
    (target,) = awaited
    assert isinstance(target, TopicTarget)
    store = target.store
    assert isinstance(store, Stored)
    assert store.got == [(b"0", "id"), (b"1", "id")]
