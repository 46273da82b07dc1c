"""Binding and unbinding: what is asked first, what is refused, what two bindings are."""

from collections.abc import Callable
from functools import partial

import pytest

from headrace.queues.model.declarations import ExchangeFlags, QueueCounts, QueueFlags
from headrace.queues.model.exchange_types.amqp import DirectTable
from headrace.queues.model.exchanges import Destination
from headrace.queues.permissions.access import Grant, Permissions, TopicGrant
from headrace.queues.refusals import Refused
from headrace.wire.amqp.field_table import encode_table
from tests.support.amqp.access import access_of
from tests.support.queues.virtual_hosts import (
    ME,
    OTHER,
    bind,
    exchange,
    queue,
    refusal,
    to_exchange,
    to_queue,
    unbind,
    virtual_host,
)


class Long(int):
    """Named as the wire's type is."""


def told(refused: Callable[[], object]) -> str:
    with pytest.raises(Refused) as error:
        refused()
    return refusal(error)


def test_both_ends_must_be_there_the_source_first() -> None:
    host = virtual_host()
    queue(host, "q")
    for binding, missing in (
        (to_queue("none", "q"), "exchange 'none'"),
        (to_queue("amq.direct", "none"), "queue 'none'"),
        (to_queue("none", "nor"), "exchange 'none'"),
        (to_exchange("amq.direct", "none"), "exchange 'none'"),
    ):
        text = f"NOT_FOUND - no {missing} in vhost '/'"
        assert told(partial(bind, host, binding)) == text


def test_to_unbind_what_is_not_there_is_fine() -> None:
    host = virtual_host()
    queue(host, "q")
    queue(host, "locked", owner=OTHER, exclusive=True)
    for binding in (
        to_queue("none", "q"),
        to_queue("amq.direct", "none"),
        to_queue("amq.direct", "q", "k"),
        to_queue("amq.direct", "locked", "k"),
    ):
        assert unbind(host, binding).bindings == ()


def test_a_binding_to_anothers_exclusive_queue_is_not_to_be_touched() -> None:
    host = virtual_host()
    queue(host, "q", exclusive=True)
    bind(host, to_queue("amq.direct", "q", "k"))
    text = told(lambda: unbind(host, to_queue("amq.direct", "q", "k"), owner=OTHER))
    assert text.startswith("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'")
    assert host.router.route("amq.direct", "k") == ("q",)


def test_a_wrong_mode_is_told_before_a_lock_and_only_at_a_headers_exchange() -> None:
    host = virtual_host()
    queue(host, "q", exclusive=True)
    wrong = {"x-match": "foo"}
    text = told(lambda: bind(host, to_queue("amq.headers", "q", "", wrong), owner=OTHER))
    assert text.startswith("PRECONDITION_FAILED - Invalid x-match field value")
    bind(host, to_queue("amq.direct", "q", "", wrong))


def test_the_same_binding_twice_is_one() -> None:
    host = virtual_host()
    queue(host, "q")
    binding = to_queue("amq.topic", "q", "a.*", {"x": 1, "y": 2})
    assert host.bind(binding, ME)
    assert not host.bind(binding._replace(arguments={"y": 2, "x": 1}), ME)
    assert unbind(host, binding).bindings == (binding,)
    assert host.router.route("amq.topic", "a.b") == ()


def test_arguments_of_another_kind_make_another_binding() -> None:
    host = virtual_host()
    queue(host, "q")
    for source in ("amq.headers", "amq.direct", "amq.fanout", "amq.topic"):
        number = to_queue(source, "q", "k", {"a": 1})
        assert host.bind(number, ME)
        assert host.bind(number._replace(arguments={"a": Long(1)}), ME)
        unbind(host, number)
        assert host.router.route(source, "k", encode_table({"a": 1})) == ("q",)
        unbind(host, number._replace(arguments={"a": Long(1)}))
        assert host.router.route(source, "k", encode_table({"a": 1})) == ()


def test_permissions_are_asked_among_the_other_checks() -> None:
    host = virtual_host()
    queue(host, "q")
    permissions = Permissions()
    permissions.set("u", "/", Grant("^mine", "^q$", "^amq.topic$"))
    permissions.set_topic("u", "/", "amq.topic", TopicGrant("", "^a"))
    access = access_of(permissions, "u", "/")
    end = "in vhost '/' refused for user 'u'"
    for binding, text in (
        (to_queue("", "other"), f"write access to queue 'other' {end}"),
        (to_queue("", "q"), "operation not permitted on the default exchange"),
        (to_queue("none", "q"), f"read access to exchange 'none' {end}"),
        (
            to_queue("amq.topic", "q", "b"),
            f"read access to topic 'b' in exchange 'amq.topic' {end}",
        ),
    ):
        changes: tuple[Callable[..., object], ...] = (host.bind, host.unbind)
        for change in changes:
            assert told(partial(change, binding, ME, access)) == f"ACCESS_REFUSED - {text}"
    assert host.bind(to_queue("amq.topic", "q", "a"), ME, access)


def test_what_hands_messages_on_needs_reading_here_and_writing_there() -> None:
    host = virtual_host()
    permissions = Permissions()
    permissions.set("u", "/", Grant("^mine", "^there$", "^mine2"))
    access = access_of(permissions, "u", "/")
    end = "in vhost '/' refused for user 'u'"

    def declare(name: str, **arguments: object) -> object:
        named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return host.declare_queue(name, QueueFlags(), named, ME, access)

    configure = f"ACCESS_REFUSED - configure access to queue 'yours' {end}"
    assert told(lambda: declare("yours")) == configure
    read = f"ACCESS_REFUSED - read access to queue 'mine' {end}"
    assert told(lambda: declare("mine", dead_letter_exchange="there")) == read
    write = f"ACCESS_REFUSED - write access to exchange 'amq.default' {end}"
    assert told(lambda: declare("mine2", dead_letter_exchange="")) == write
    declare("mine2", dead_letter_exchange="there")
    alternate = {"alternate-exchange": "here"}
    assert told(
        lambda: host.declare_exchange("mine2", "direct", ExchangeFlags(), alternate, access)
    ) == (f"ACCESS_REFUSED - write access to exchange 'here' {end}")


def test_a_deletion_needs_configuring() -> None:
    host = virtual_host()
    exchange(host, "e")
    queue(host, "q")
    permissions = Permissions()
    access = access_of(permissions, "u", "/")
    end = "in vhost '/' refused for user 'u'"
    assert told(lambda: host.delete_exchange("e", access=access)) == (
        f"ACCESS_REFUSED - configure access to exchange 'e' {end}"
    )
    assert told(lambda: host.delete_queue("q", ME, QueueCounts(), access=access)) == (
        f"ACCESS_REFUSED - configure access to queue 'q' {end}"
    )


def test_keys_that_nothing_is_bound_by_any_more_take_no_memory() -> None:
    table = DirectTable({})
    for number in range(100):
        binding = to_queue("e", "q", str(number))
        table.add(binding)
        table.add(binding)
        table.remove(binding)
        table.remove(binding)
    assert table._bound == {}


def test_an_exchange_that_is_bound_to_itself_goes_with_that_binding() -> None:
    host = virtual_host()
    exchange(host, "e")
    binding = to_exchange("e", "e", "k")
    bind(host, binding)
    assert host.bindings.remove_exchange(host.exchanges["e"]).bindings == (binding,)
    assert host.bindings.to(Destination("exchange", "e")) == []
