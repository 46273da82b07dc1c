"""Declaring and deleting exchanges: RabbitMQ's checks, with its codes and texts."""

from collections.abc import Callable
from functools import partial

import pytest

from headrace.queues.refusals import Refused
from tests.support.queues.virtual_hosts import (
    ME,
    bind,
    exchange,
    queue,
    refusal,
    to_exchange,
    to_queue,
    unbind,
    virtual_host,
)


def told(refused: Callable[[], object]) -> str:
    with pytest.raises(Refused) as error:
        refused()
    return refusal(error)


def test_a_type_that_is_none_is_refused() -> None:
    host = virtual_host()
    text = "PRECONDITION_FAILED - unknown exchange type 'nosuch'"
    assert told(lambda: exchange(host, "", "nosuch")) == text


def test_nothing_may_be_done_to_the_default_exchange() -> None:
    host = virtual_host()
    queue(host, "q")
    text = "ACCESS_REFUSED - operation not permitted on the default exchange"
    assert told(lambda: exchange(host, "")) == text
    assert told(lambda: host.check_exchange("\r\n")) == text
    assert told(lambda: host.delete_exchange("")) == text
    assert told(lambda: bind(host, to_queue("", "q", "q"))) == text
    assert told(lambda: unbind(host, to_queue("", "q", "q"))) == text
    assert told(lambda: bind(host, to_exchange("amq.direct", ""))) == text


def test_names_that_begin_with_amq_are_taken() -> None:
    host = virtual_host()
    assert told(lambda: exchange(host, "amq.foo")) == (
        "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"
    )
    for name in ("amq.direct", "amq.zzz"):
        assert told(partial(host.delete_exchange, name)) == (
            f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed"
        )


def test_the_exchanges_that_are_there_may_be_declared_as_they_are() -> None:
    host = virtual_host()
    for name, type_name in (
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ):
        assert not exchange(host, name, type_name, durable=True)
    assert not exchange(host, "amq.rabbitmq.trace", "topic", durable=True, internal=True)
    assert told(lambda: exchange(host, "amq.direct")) == (
        "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/':"
        " received 'false' but current is 'true'"
    )


def test_an_exchange_is_declared_again_as_it_is_and_no_other_way() -> None:
    host = virtual_host()
    assert exchange(host, "e")
    assert not exchange(host, "e", "direct", {"x-unknown": 1})
    for what, received, current, declare in (
        ("type", "topic", "direct", lambda: exchange(host, "e", "topic", durable=True)),
        ("durable", "true", "false", lambda: exchange(host, "e", durable=True)),
        ("auto_delete", "true", "false", lambda: exchange(host, "e", auto_delete=True)),
        ("internal", "true", "false", lambda: exchange(host, "e", internal=True)),
    ):
        assert told(declare) == (
            f"PRECONDITION_FAILED - inequivalent arg '{what}' for exchange 'e' in vhost '/':"
            f" received '{received}' but current is '{current}'"
        )


def test_an_alternate_exchange_is_compared_and_must_be_a_name() -> None:
    host = virtual_host()
    exchange(host, "e", arguments={"alternate-exchange": "a"})
    exchange(host, "plain")
    begin = "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange"
    assert told(lambda: exchange(host, "e", arguments={"alternate-exchange": "b"})) == (
        f"{begin} 'e' in vhost '/': received 'b' but current is 'a'"
    )
    assert told(lambda: exchange(host, "e")) == (
        f"{begin} 'e' in vhost '/': received none but current is the value 'a' of type 'longstr'"
    )
    assert told(lambda: exchange(host, "plain", arguments={"alternate-exchange": "a"})) == (
        f"{begin} 'plain' in vhost '/': received the value 'a' of type 'longstr'"
        " but current is none"
    )
    assert told(lambda: exchange(host, "e2", arguments={"alternate-exchange": 5})) == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange'"
        " in exchange 'e2' in vhost '/'"
    )


def test_an_exchange_that_is_not_there_is_not_found() -> None:
    host = virtual_host("v")
    assert told(lambda: host.check_exchange("e")) == "NOT_FOUND - no exchange 'e' in vhost 'v'"
    assert told(lambda: host.check_publish("e")) == "NOT_FOUND - no exchange 'e' in vhost 'v'"
    assert host.delete_exchange("e").exchanges == ()


def test_nobody_publishes_to_an_internal_exchange() -> None:
    host = virtual_host()
    exchange(host, "in", internal=True)
    assert told(lambda: host.check_publish("in")) == (
        "ACCESS_REFUSED - cannot publish to internal exchange 'in' in vhost '/'"
    )
    assert host.check_publish("amq.direct").name == "amq.direct"


def test_an_exchange_in_use_has_bindings_from_it() -> None:
    host = virtual_host()
    queue(host, "q")
    exchange(host, "e")
    bind(host, to_exchange("amq.fanout", "e"))
    assert host.delete_exchange("e", if_unused=True).bindings == (to_exchange("amq.fanout", "e"),)
    exchange(host, "e")
    bind(host, to_queue("e", "q"))
    assert told(lambda: host.delete_exchange("e", if_unused=True)) == (
        "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use"
    )
    removed = host.delete_exchange("e")
    assert [gone.name for gone in removed.exchanges] == ["e"]
    assert removed.bindings == (to_queue("e", "q"),)
    assert host.bindings.to(to_queue("e", "q").destination) == []


def test_line_ends_are_no_part_of_a_name() -> None:
    host = virtual_host()
    exchange(host, "a\r\nb")
    assert host.check_exchange("ab\n").name == "ab"
    queue(host, "q\n")
    assert host.check_queue("q", ME).name == "q"


def test_an_auto_delete_exchange_goes_with_the_last_binding_from_it() -> None:
    host = virtual_host()
    queue(host, "q")
    exchange(host, "e", auto_delete=True)
    bind(host, to_queue("e", "q", "a"), to_queue("e", "q", "b"), to_exchange("amq.fanout", "e"))
    assert unbind(host, to_queue("e", "q", "a")).exchanges == ()
    removed = unbind(host, to_queue("e", "q", "b"))
    assert [gone.name for gone in removed.exchanges] == ["e"]
    assert removed.bindings == (to_queue("e", "q", "b"), to_exchange("amq.fanout", "e"))
    assert "e" not in host.exchanges


def test_auto_delete_exchanges_in_a_row_go_together() -> None:
    host = virtual_host()
    queue(host, "q")
    for name in ("a", "b", "c"):
        exchange(host, name, "fanout", auto_delete=True)
    bind(host, to_exchange("a", "b"), to_exchange("b", "c"), to_queue("c", "q"))
    removed = host.remove_queue("q")
    assert {gone.name for gone in removed.exchanges} == {"a", "b", "c"}
    assert len(removed.bindings) == 3
    assert removed.queues == ("q",)


def test_an_exchange_bound_to_itself_can_be_deleted() -> None:
    host = virtual_host()
    exchange(host, "e", "fanout", auto_delete=True)
    bind(host, to_exchange("e", "e"))
    removed = host.delete_exchange("e")
    assert removed.bindings == (to_exchange("e", "e"),)
    exchange(host, "e", "fanout", auto_delete=True)
    assert host.exchanges["e"].bindings == {}
