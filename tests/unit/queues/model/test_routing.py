"""Routes: through bindings of exchanges, alternates and several keys; which are kept, how long."""

import pytest

from headrace.queues.model import routing
from headrace.queues.model.exchange_types.amqp import DIRECT
from headrace.queues.model.exchanges import Exchange
from headrace.queues.refusals import Refused
from headrace.wire.amqp.field_table import encode_table
from tests.support.queues.virtual_hosts import (
    bind,
    exchange,
    queue,
    to_exchange,
    to_queue,
    unbind,
    virtual_host,
)

TOPIC_PATTERNS = (
    "", "#", "*", "*.*", "a.#", "#.a", "*.#", "#.#", "a..b", "a.*.b", "#.*", ".", "a.", "*.",
)  # fmt: skip


def test_the_default_exchange_routes_to_the_queue_of_that_name() -> None:
    host = virtual_host()
    assert host.router.route("", "q") == ()
    queue(host, "q")
    assert host.router.route("", "q") == ("q",)
    queue(host, "p")
    assert host.router.route("", "q", None, ["p", "none", "q"]) == ("p", "q")
    host.remove_queue("q")
    assert host.router.route("", "q") == ()


def test_an_exchange_that_is_not_there_has_no_routes() -> None:
    host = virtual_host()
    with pytest.raises(Refused, match="no exchange 'e' in vhost '/'"):
        host.router.route("e", "k")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("", {"", "#", "#.#"}),
        ("a", {"#", "*", "a.#", "#.a", "*.#", "#.#", "#.*"}),
        ("a.", {"#", "*.*", "a.#", "*.#", "#.#", "#.*", "a.", "*."}),
        (".", {"#", "*.*", "*.#", "#.#", "#.*", ".", "*."}),
        (".a", {"#", "*.*", "#.a", "*.#", "#.#", "#.*"}),
        ("a..b", {"#", "a.#", "*.#", "#.#", "a..b", "a.*.b", "#.*"}),
        ("..", {"#", "*.#", "#.#", "#.*"}),
        ("*", {"#", "*", "*.#", "#.#", "#.*"}),
        ("#", {"#", "*", "*.#", "#.#", "#.*"}),
        ("a.*.b", {"#", "a.#", "*.#", "#.#", "a.*.b", "#.*"}),
    ],
)
def test_topics_are_routed_as_rabbitmq_was_seen_to_route_them(key: str, expected: set[str]) -> None:
    host = virtual_host()
    for pattern in TOPIC_PATTERNS:
        queue(host, f"q{pattern}")
        bind(host, to_queue("amq.topic", f"q{pattern}", pattern))
    assert host.router.route("amq.topic", key) == tuple(sorted(f"q{name}" for name in expected))


def test_each_queue_is_named_once_in_one_order() -> None:
    host = virtual_host()
    for name in ("c", "a", "b"):
        queue(host, name)
        bind(host, to_queue("amq.topic", name, "#"), to_queue("amq.topic", name, "k"))
    assert host.router.route("amq.topic", "k") == ("a", "b", "c")
    assert host.router.route("amq.topic", "k", None, ["k", "l"]) == ("a", "b", "c")


def test_a_route_leads_through_exchanges_and_ends_though_they_form_a_circle() -> None:
    host = virtual_host()
    queue(host, "q")
    for name, type_name in (("a", "direct"), ("b", "fanout"), ("c", "topic")):
        exchange(host, name, type_name)
    bind(
        host,
        to_exchange("a", "b", "k"),
        to_exchange("b", "c"),
        to_exchange("c", "a", "#"),
        to_exchange("a", "a", "k"),
        to_queue("c", "q", "k"),
    )
    assert host.router.route("a", "k") == ("q",)
    assert host.router.route("a", "other") == ()
    assert host.router.route("b", "other") == ()


def test_what_nothing_is_bound_for_goes_to_the_alternate_exchange() -> None:
    host = virtual_host()
    queue(host, "q")
    queue(host, "rest")
    exchange(host, "alt", "fanout", internal=True)
    exchange(host, "e", arguments={"alternate-exchange": "alt"})
    exchange(host, "lost", arguments={"alternate-exchange": "none"})
    exchange(host, "default", arguments={"alternate-exchange": ""})
    bind(host, to_queue("e", "q", "k"), to_queue("alt", "rest"))
    assert host.router.route("e", "k") == ("q",)
    assert host.router.route("e", "other") == ("rest",)
    assert host.router.route("e", "other", None, ["k"]) == ("q",)
    assert host.router.route("lost", "other") == ()
    # RabbitMQ 4.0.5: the default exchange has no bindings that this would follow.
    assert host.router.route("default", "q") == ()


def test_a_binding_to_an_exchange_that_leads_nowhere_is_a_binding() -> None:
    host = virtual_host()
    queue(host, "rest")
    exchange(host, "alt", "fanout")
    exchange(host, "e", "fanout", arguments={"alternate-exchange": "alt"})
    exchange(host, "nowhere", "fanout")
    bind(host, to_queue("alt", "rest"), to_exchange("e", "nowhere"))
    assert host.router.route("e", "k") == ()


def test_headers_are_decoded_only_where_an_exchange_routes_by_them() -> None:
    host = virtual_host()
    queue(host, "q")
    exchange(host, "front", "fanout")
    malformed = b"\x05a"
    assert host.router.route("amq.headers", "k", malformed) == ()
    bind(host, to_queue("amq.headers", "q", "", {"a": 1}), to_exchange("front", "amq.headers"))
    assert host.router.route("amq.direct", "k", malformed) == ()
    with pytest.raises(Refused, match="properties of a message cannot be read"):
        host.router.route("front", "k", malformed)
    # By headers nothing is kept: the next message has its own.
    assert host.router.route("front", "k", encode_table({"a": 1})) == ("q",)
    assert host.router.route("front", "k", encode_table({"a": 2})) == ()


def test_a_route_that_is_kept_ends_with_any_change_of_bindings() -> None:
    host = virtual_host()
    queue(host, "q")
    exchange(host, "e", "topic", arguments={"alternate-exchange": "later"})
    assert host.router.route("e", "k") == ()
    bind(host, to_queue("e", "q", "k"))
    assert host.router.route("e", "k") == ("q",)
    unbind(host, to_queue("e", "q", "k"))
    assert host.router.route("e", "k") == ()
    exchange(host, "later", "fanout")
    bind(host, to_queue("later", "q"))
    assert host.router.route("e", "k") == ("q",)
    host.delete_exchange("later")
    assert host.router.route("e", "k") == ()
    host.delete_exchange("e")
    with pytest.raises(Refused):
        host.router.route("e", "k")


def test_a_declared_exchange_takes_part_in_routes_at_once() -> None:
    host = virtual_host()
    queue(host, "q")
    bind(host, to_queue("amq.fanout", "q"))
    exchange(host, "e", arguments={"alternate-exchange": "later"})
    assert host.router.route("e", "k") == ()
    exchange(host, "later", arguments={"alternate-exchange": "amq.fanout"})
    assert host.router.route("e", "k") == ("q",)


def test_routes_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "ROUTES_KEPT_MAX", 10)
    host = virtual_host()
    queue(host, "q")
    bind(host, to_queue("amq.topic", "q", "*.1"))
    for number in range(35):
        route = host.router.route("amq.topic", f"{number}.1")
        assert route == ("q",)
        assert len(host.router._kept) <= 10


def test_routes_to_many_queues_are_kept_up_to_a_bound_of_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "QUEUES_KEPT_MAX", 100)
    host = virtual_host()
    for number in range(30):
        queue(host, f"q{number}")
        bind(host, to_queue("amq.topic", f"q{number}", "#"))
    for number in range(20):
        assert len(host.router.route("amq.topic", str(number))) == 30
        assert sum(len(route) for route in host.router._kept.values()) <= 100


def test_a_key_that_says_nothing_keeps_nothing_of_its_own() -> None:
    host = virtual_host()
    queue(host, "q")
    bind(host, to_queue("amq.fanout", "q"))
    for number in range(20):
        assert host.router.route("amq.fanout", str(number)) == ("q",)
    assert host.router._kept == {}
    unbind(host, to_queue("amq.fanout", "q"))
    assert host.router.route("amq.fanout", "1") == ()


def test_each_of_many_keys_may_match_a_topics_pattern() -> None:
    host = virtual_host()
    queue(host, "q")
    bind(host, to_queue("amq.topic", "q", "c"))
    assert host.router.route("amq.topic", "a", None, ["b", "c"]) == ("q",)


def test_an_alternate_that_is_no_text_is_none() -> None:
    host = virtual_host()
    host.add_exchange(Exchange("e", DIRECT, arguments={"alternate-exchange": {}}))
    assert host.router.route("e", "k") == ()


def test_what_is_stored_in_a_topic_does_not_go_to_the_alternate_exchange() -> None:
    host = virtual_host()
    queue(host, "rest")
    bind(host, to_queue("amq.fanout", "rest"))
    both = {"alternate-exchange": "amq.fanout", "x-headrace-topic": "t"}
    host.add_exchange(Exchange("e", DIRECT, arguments=both))
    assert host.router.route("e", "k") == ("\nt",)
