"""Exchanges, bindings and where a message goes."""

from typing import Any

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    arrived,
    channel,
    connected,
    declared,
    drained,
    get,
    publish,
    refused,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import eventually

LOG_KEYS = ("auth.info", "auth.error", "cron.warning", "kern.critical")


def _exchange(opened: Any, kind: str = "direct", **fields: Any) -> str:
    """An exchange that goes with its last binding."""
    name = unused("e")
    opened.exchange_declare(name, kind, **{"auto_delete": True} | fields)
    return name


def _routed(opened: Any, queues: list[str]) -> list[list[bytes]]:
    """What is in each queue, once the broker has routed all that was published before."""
    mark = declared(opened)
    publish(opened, mark, b"mark")
    arrived(opened, mark, 1)
    return [drained(opened, queue) for queue in queues]


@scenario
def the_default_exchange_routes_by_queue_name(address: Address) -> None:
    with channel(address) as opened:
        queue, other = declared(opened), declared(opened)
        publish(opened, queue, "here")
        publish(opened, unused(), "nowhere")
        assert _routed(opened, [queue, other]) == [[b"here"], []]


@scenario
def a_direct_exchange_routes_by_equal_keys(address: Address) -> None:
    with channel(address) as opened:
        exchange, one, two = _exchange(opened), declared(opened), declared(opened)
        opened.queue_bind(one, exchange, "red")
        opened.queue_bind(one, exchange, "blue")
        opened.queue_bind(two, exchange, "red")
        for key in ("red", "blue", "green", "re"):
            publish(opened, key, key, exchange=exchange)
        assert _routed(opened, [one, two]) == [[b"red", b"blue"], [b"red"]]


@scenario
def a_fanout_exchange_routes_to_all(address: Address) -> None:
    with channel(address) as opened:
        exchange = _exchange(opened, "fanout")
        queues = [declared(opened) for _ in range(5)]
        for number, queue in enumerate(queues):
            opened.queue_bind(queue, exchange, f"key-{number}")
        publish(opened, "any", "all", exchange=exchange)
        assert _routed(opened, queues) == [[b"all"]] * 5


@scenario
def a_topic_exchange_routes_by_patterns(address: Address) -> None:
    keys = [
        "quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox",
        "lazy.pink.rabbit", "quick.brown.fox", "orange", "lazy", "lazy.orange.new.rabbit", "",
    ]  # fmt: skip
    patterns = {
        "*.orange.*": ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox"],
        "*.*.rabbit": ["quick.orange.rabbit", "lazy.pink.rabbit"],
        "lazy.#": ["lazy.orange.elephant", "lazy.brown.fox", "lazy.pink.rabbit", "lazy",
                   "lazy.orange.new.rabbit"],
        "#": keys,
        "": [""],
        "*": ["orange", "lazy"],
        "#.rabbit": ["quick.orange.rabbit", "lazy.pink.rabbit", "lazy.orange.new.rabbit"],
        "lazy.*.#.rabbit": ["lazy.pink.rabbit", "lazy.orange.new.rabbit"],
    }  # fmt: skip
    with channel(address) as opened:
        exchange = _exchange(opened, "topic")
        queues = [declared(opened) for _ in patterns]
        for queue, pattern in zip(queues, patterns, strict=True):
            opened.queue_bind(queue, exchange, pattern)
        for key in keys:
            publish(opened, key, key, exchange=exchange)
        for pattern, found in zip(patterns, _routed(opened, queues), strict=True):
            expected = [key.encode() for key in keys if key in patterns[pattern]]
            assert found == expected, (pattern, found, expected)


@scenario
def a_headers_exchange_matches_all_or_any(address: Address) -> None:
    bound: dict[str, dict[str, Any]] = {
        "all": {"x-match": "all", "kind": "pdf", "pages": 3},
        "any": {"x-match": "any", "kind": "pdf", "pages": 3},
        "default": {"kind": "pdf"},
        "all-with-x": {"x-match": "all-with-x", "x-kind": "pdf"},
        "any-with-x": {"x-match": "any-with-x", "x-kind": "pdf", "pages": 3},
        "all, without a look at x-": {"x-match": "all", "x-kind": "pdf", "pages": 3},
        "nothing": {},
        "there, whatever it is": {"kind": None},
    }
    sent: list[dict[str, Any] | None] = [
        {"kind": "pdf", "pages": 3}, {"kind": "pdf"}, {"pages": 3}, {"x-kind": "pdf"},
        {"kind": "png", "pages": 4}, {"kind": "pdf", "pages": "3"}, None,
    ]  # fmt: skip
    expected = {
        "all": "0", "any": "0125", "default": "015", "all-with-x": "3", "any-with-x": "023",
        "all, without a look at x-": "02", "nothing": "0123456", "there, whatever it is": "0145",
    }  # fmt: skip
    with channel(address) as opened:
        exchange = _exchange(opened, "headers")
        queues = [declared(opened) for _ in bound]
        for queue, arguments in zip(queues, bound.values(), strict=True):
            opened.queue_bind(queue, exchange, "", arguments)
        for number, headers in enumerate(sent):
            publish(opened, "", str(number), exchange=exchange, headers=headers)
        routed = _routed(opened, queues)
    found = {name: b"".join(one).decode() for name, one in zip(bound, routed, strict=True)}
    assert found == expected, found


@scenario
def predeclared_exchanges_are_there(address: Address) -> None:
    with channel(address) as opened:
        for name in ("direct", "fanout", "topic", "headers", "match"):
            kind = "headers" if name == "match" else name
            opened.exchange_declare(f"amq.{name}", kind, durable=True)
            opened.exchange_declare(f"amq.{name}", passive=True)


@scenario
def declaring_again_is_the_same_exchange(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        name = unused("e")
        opened.exchange_declare(name, "topic", durable=True, arguments={"x-own": 1})
        opened.exchange_declare(name, "topic", durable=True)
        with refused(406, f"inequivalent arg 'type' for exchange '{name}'"):
            opened.exchange_declare(name, "fanout", durable=True)
        connection.channel().exchange_delete(name)


@scenario
def a_passive_declaration_of_none_is_not_found(address: Address) -> None:
    name = unused("e")
    with channel(address) as opened, refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        opened.exchange_declare(name, passive=True)


@scenario
def reserved_names_are_refused(address: Address) -> None:
    with connected(address) as connection:
        with refused(403, "ACCESS_REFUSED"):
            connection.channel().exchange_declare("amq.mine", "direct")
        with refused(403, "ACCESS_REFUSED"):
            connection.channel().exchange_delete("amq.topic")
        with refused(403, "ACCESS_REFUSED", "operation not permitted on the default exchange"):
            connection.channel().queue_bind(declared(connection.channel()), "", "key")


@scenario
def an_internal_exchange_takes_messages_of_exchanges_only(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        front, inner = _exchange(opened, "fanout"), _exchange(opened, "fanout", internal=True)
        queue = declared(opened)
        opened.exchange_bind(inner, front)
        opened.queue_bind(queue, inner)
        publish(opened, "", "through", exchange=front)
        assert arrived(opened, queue, 1)[0].method.exchange == front
        with refused(403, f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}'"):
            publish(opened, "", "at once", exchange=inner)
            opened.queue_declare(queue, passive=True)


@scenario
def publishing_to_no_exchange_closes_the_channel(address: Address) -> None:
    name = unused("e")
    with channel(address) as opened, refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '/'"):
        publish(opened, "", "lost", exchange=name)
        opened.queue_declare(unused(), passive=True)


@scenario
def an_auto_delete_exchange_goes_with_its_last_binding(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        name, queue = _exchange(opened), declared(opened)
        opened.queue_bind(queue, name, "a")
        opened.queue_bind(queue, name, "b")
        opened.queue_unbind(queue, name, "a")
        opened.exchange_declare(name, passive=True)
        opened.queue_unbind(queue, name, "b")
        with refused(404):
            opened.exchange_declare(name, passive=True)


@scenario
def an_exchange_in_use_is_not_deleted_if_unused(address: Address) -> None:
    with connected(address) as connection:
        opened = connection.channel()
        name, queue = unused("e"), declared(opened)
        opened.exchange_declare(name)
        opened.queue_bind(queue, name, "a")
        with refused(406, f"exchange '{name}' in vhost '/' in use"):
            opened.exchange_delete(name, if_unused=True)
        opened = connection.channel()
        opened.queue_unbind(queue, name, "a")
        opened.exchange_delete(name, if_unused=True)
        opened.exchange_delete(name)


@scenario
def what_an_exchange_cannot_route_goes_to_its_alternate(address: Address) -> None:
    with channel(address) as opened:
        spare = _exchange(opened, "fanout")
        exchange = _exchange(opened, arguments={"alternate-exchange": spare})
        queue, rest = declared(opened), declared(opened)
        opened.queue_bind(queue, exchange, "known")
        opened.queue_bind(rest, spare)
        for key in ("known", "unknown"):
            publish(opened, key, key, exchange=exchange)
        assert _routed(opened, [queue, rest]) == [[b"known"], [b"unknown"]]


@scenario
def exchanges_are_bound_to_exchanges(address: Address) -> None:
    with channel(address) as opened:
        front, middle = _exchange(opened, "topic"), _exchange(opened, "direct")
        queue = declared(opened)
        opened.exchange_bind(middle, front, "orders.#")
        opened.queue_bind(queue, middle, "orders.paid")
        publish(opened, "orders.paid", "paid", exchange=front)
        publish(opened, "orders.sent", "sent", exchange=front)
        assert _routed(opened, [queue]) == [[b"paid"]]
        opened.exchange_unbind(middle, front, "orders.#")


@scenario
def a_circle_of_exchanges_routes_once(address: Address) -> None:
    with channel(address) as opened:
        one, two = _exchange(opened, "fanout"), _exchange(opened, "fanout")
        queue = declared(opened)
        opened.exchange_bind(one, two)
        opened.exchange_bind(two, one)
        opened.queue_bind(queue, one)
        opened.queue_bind(queue, two)
        publish(opened, "", "once", exchange=one)
        assert _routed(opened, [queue]) == [[b"once"]]
        opened.exchange_unbind(one, two)


@scenario
def a_queue_bound_twice_gets_a_message_once(address: Address) -> None:
    with channel(address) as opened:
        exchange, queue = _exchange(opened, "topic"), declared(opened)
        for pattern in ("a.*", "*.b", "#", "a.b"):
            opened.queue_bind(queue, exchange, pattern)
        opened.queue_bind(queue, exchange, "#")
        publish(opened, "a.b", "once", exchange=exchange)
        assert _routed(opened, [queue]) == [[b"once"]]
        opened.queue_unbind(queue, exchange, "#")
        publish(opened, "a.b", "still", exchange=exchange)
        publish(opened, "c", "no longer", exchange=exchange)
        assert _routed(opened, [queue]) == [[b"still"]]


@scenario
def unbinding_what_is_not_bound_is_no_error(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened)
        opened.queue_unbind(queue, "amq.topic", "none")
        opened.queue_unbind(unused(), "amq.topic", "none")


@scenario
def binding_needs_both_ends(address: Address) -> None:
    with connected(address) as connection:
        queue, none = declared(connection.channel()), unused("e")
        with refused(404, f"NOT_FOUND - no exchange '{none}' in vhost '/'"):
            connection.channel().queue_bind(queue, none, "a")
        with refused(404, f"NOT_FOUND - no queue '{none}' in vhost '/'"):
            connection.channel().queue_bind(none, "amq.topic", "a")


@scenario
def cc_and_bcc_are_routes_beside_the_key(address: Address) -> None:
    with channel(address) as opened:
        queues = [declared(opened) for _ in range(4)]
        main, copy, hidden, other = queues
        headers = {"CC": [copy, main], "BCC": [hidden], "own": "kept"}
        publish(opened, main, "three", headers=headers)
        for queue in (main, copy, hidden):
            (message,) = arrived(opened, queue, 1)
            assert message.body == b"three"
            assert message.method.routing_key == main
            assert message.properties.headers == {"CC": [copy, main], "own": "kept"}
        assert _routed(opened, [other]) == [[]]


@scenario
def bindings_go_with_their_queue(address: Address) -> None:
    with channel(address) as opened:
        exchange, queue = _exchange(opened, auto_delete=False), declared(opened)
        opened.queue_bind(queue, exchange, "a")
        opened.queue_delete(queue)
        opened.exchange_delete(exchange, if_unused=True)
        opened.queue_declare(queue, exclusive=True)
        publish(opened, queue, "direct")
        eventually(lambda: get(opened, queue), "the message of the default exchange")
