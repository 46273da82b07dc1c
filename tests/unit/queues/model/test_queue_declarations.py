"""Declaring, using and deleting queues: RabbitMQ's checks, with its codes and texts."""

from collections.abc import Callable
from functools import partial

import pytest

from headrace.queues.model.declarations import QueueCounts
from headrace.queues.refusals import Refused
from tests.support.queues.virtual_hosts import (
    ME,
    OTHER,
    bind,
    exchange,
    queue,
    refusal,
    to_queue,
    virtual_host,
)

QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be"
    " originally declared on another connection or the exclusive property value does not match"
    " that of the original declaration."
)


class Long(int):
    """Named as the wire's type is."""


def told(refused: Callable[[], object]) -> str:
    with pytest.raises(Refused) as error:
        refused()
    return refusal(error)


def inequivalent(what: str, received: str, current: str) -> str:
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{what}' for queue 'q' in vhost '/':"
        f" received {received} but current is {current}"
    )


def test_a_queue_is_declared_again_as_it_is_and_no_other_way() -> None:
    host = virtual_host()
    assert queue(host, "q").created
    assert not queue(host, "q", {"x-unknown": 1, "x-queue-type": "classic"}).created
    assert told(lambda: queue(host, "q", durable=True)) == inequivalent(
        "durable", "'true'", "'false'"
    )
    assert told(lambda: queue(host, "q", auto_delete=True)) == inequivalent(
        "auto_delete", "'true'", "'false'"
    )
    assert told(lambda: queue(host, "q", QUORUM)) == inequivalent(
        "x-queue-type", "'quorum'", "'classic'"
    )
    assert told(lambda: queue(host, "q", {"x-message-ttl": 10})) == inequivalent(
        "x-message-ttl", "the value '10' of type 'signedint'", "none"
    )


def test_arguments_are_compared_by_value_and_not_by_kind() -> None:
    host = virtual_host()
    queue(host, "q", {"x-message-ttl": 10})
    assert not queue(host, "q", {"x-message-ttl": Long(10)}).created
    for arguments, received in (
        ({"x-message-ttl": 11}, "'11'"),
        ({"x-message-ttl": "10"}, "'10'"),
        ({"x-message-ttl": True}, "'true'"),
    ):
        text = inequivalent("x-message-ttl", received, "'10'")
        assert told(partial(queue, host, "q", arguments)) == text
    assert told(lambda: queue(host, "q")) == inequivalent(
        "x-message-ttl", "none", "the value '10' of type 'signedint'"
    )


def test_wrong_arguments_of_a_queue_that_is_there_are_told_as_others() -> None:
    host = virtual_host()
    queue(host, "q")
    told_text = told(lambda: queue(host, "q", {"x-queue-type": "foo"}))
    assert told_text == inequivalent("x-queue-type", "'foo'", "'classic'")


def test_an_exclusive_queue_is_its_connections_alone() -> None:
    host = virtual_host()
    queue(host, "q", exclusive=True, durable=True)
    assert not host.queues["q"].durable
    assert not queue(host, "q", exclusive=True).created
    assert host.check_queue("q", ME).name == "q"
    assert told(lambda: queue(host, "q")) == LOCKED
    for refused in (
        lambda: queue(host, "q", owner=OTHER, exclusive=True),
        lambda: queue(host, "q", owner=OTHER),
        lambda: host.check_queue("q", OTHER),
        lambda: host.delete_queue("q", OTHER, QueueCounts()),
        lambda: bind(host, to_queue("amq.direct", "q"), owner=OTHER),
    ):
        assert told(refused) == LOCKED


def test_a_shared_queue_can_not_become_exclusive() -> None:
    host = virtual_host()
    queue(host, "q")
    assert told(lambda: queue(host, "q", exclusive=True)) == LOCKED


def test_exclusive_queues_go_with_their_connection() -> None:
    host = virtual_host()
    queue(host, "b", exclusive=True)
    queue(host, "a", exclusive=True)
    queue(host, "c", exclusive=True)
    queue(host, "other", owner=OTHER, exclusive=True)
    queue(host, "shared")
    host.remove_queue("c")
    assert [removed.queues for removed in host.connection_closed(ME)] == [("a",), ("b",)]
    assert set(host.queues) == {"other", "shared"}
    assert host.connection_closed(ME) == []
    assert host.table._of_owners.keys() == {OTHER}


def test_a_queue_without_a_name_is_given_one() -> None:
    host = virtual_host()
    first, second = queue(host, "").queue.name, queue(host, "").queue.name
    assert first == "amq.gen-AAAAAAAAAAAAAAAAAAAAAA"
    assert second != first
    for arguments, kind in ((QUORUM, "quorum"), (STREAM, "stream")):
        assert told(partial(queue, host, "", arguments, durable=True)) == (
            "PRECONDITION_FAILED - Cannot declare a server-named queue for type"
            f" rabbit_{kind}_queue"
        )


def test_names_that_begin_with_amq_are_taken() -> None:
    host = virtual_host()
    assert told(lambda: queue(host, "amq.gen-a")) == (
        "ACCESS_REFUSED - queue name 'amq.gen-a' contains reserved prefix 'amq.*'"
    )


def test_a_queue_that_is_not_there_is_not_found() -> None:
    host = virtual_host()
    assert told(lambda: host.check_queue("q", ME)) == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert told(lambda: host.check_queue("", ME)) == "NOT_FOUND - no queue '' in vhost '/'"
    assert host.delete_queue("q", ME, QueueCounts()).queues == ()


def test_quorum_queues_and_streams_are_durable_and_shared() -> None:
    host = virtual_host()
    for arguments in (QUORUM, STREAM):
        declare = partial(queue, host, "q", arguments)
        for refused, what in (
            (declare, "non-durable"),
            (partial(declare, durable=True, auto_delete=True), "auto-delete"),
            (partial(declare, durable=True, exclusive=True), "exclusive-owner"),
            (partial(declare, auto_delete=True, exclusive=True), "auto-delete"),
        ):
            assert told(refused) == (
                f"PRECONDITION_FAILED - invalid property '{what}' for queue 'q' in vhost '/'"
            )
    assert host.queues == {}
    assert queue(host, "q", QUORUM, durable=True).created


@pytest.mark.parametrize(
    "kept", [{"x-headrace-retention": "7D"}, {"x-headrace-retention-bytes": 1}]
)
def test_what_is_settled_is_kept_by_durable_queues_alone(kept: dict[str, object]) -> None:
    host = virtual_host()
    (name,) = kept
    declare = partial(queue, host, "q", kept)
    for refused in (
        declare,
        partial(declare, exclusive=True),
        partial(declare, exclusive=True, durable=True),
    ):
        assert told(refused) == (
            f"PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': a queue that"
            " is not durable, or exclusive, keeps nothing that is settled; declare it durable"
        )
    assert told(partial(queue, host, "q", {**QUORUM, **kept})) == (
        "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q' in vhost '/'"
    )
    assert host.queues == {}
    for arguments in (kept, {**QUORUM, **kept}):
        assert queue(host, "q", arguments, durable=True).created
        assert not queue(host, "q", arguments, durable=True).created
        value = next(iter(kept.values()))
        kind = "longstr" if isinstance(value, str) else "signedint"
        without = {key: of for key, of in arguments.items() if key not in kept}
        assert told(partial(queue, host, "q", without, durable=True)) == inequivalent(
            name, "none", f"the value '{value}' of type '{kind}'"
        )
        host.remove_queue("q")


def test_a_dead_letter_exchange_is_a_name() -> None:
    host = virtual_host()
    assert told(lambda: queue(host, "q", {"x-dead-letter-exchange": 5})) == (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange'"
        " in queue 'q' in vhost '/'"
    )


def test_a_vhost_has_no_more_queues_than_it_may() -> None:
    host = virtual_host(queues_max=1)
    queue(host, "q")
    assert not queue(host, "q").created
    assert told(lambda: queue(host, "q2")) == (
        "PRECONDITION_FAILED - cannot declare queue 'q2': queue limit in vhost '/' (1) is reached"
    )


def test_a_queue_is_deleted_where_its_conditions_hold() -> None:
    host = virtual_host()
    queue(host, "q")
    in_use = "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
    both = QueueCounts(ready=1, consumers=1)
    assert told(lambda: host.delete_queue("q", ME, both, if_unused=True)) == in_use
    assert told(lambda: host.delete_queue("q", ME, both, if_unused=True, if_empty=True)) == in_use
    assert told(lambda: host.delete_queue("q", ME, QueueCounts(ready=1), if_empty=True)) == (
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    )
    counts = QueueCounts(ready=1)
    assert host.delete_queue("q", ME, counts, if_unused=True).queues == ("q",)


def test_conditions_of_a_quorum_queue_close_the_connection_and_a_streams_say_nothing() -> None:
    host = virtual_host()
    queue(host, "q", QUORUM, durable=True)
    for unused, name in ((True, "if-unused"), (False, "if-empty")):
        with pytest.raises(Refused) as refused:
            host.delete_queue("q", ME, QueueCounts(), if_unused=unused, if_empty=not unused)
        assert refusal(refused) == (
            "NOT_IMPLEMENTED - cannot delete queue 'q' in vhost '/'. queue.delete operations with"
            f" {name} flag set are not supported by quorum queues"
        )
    queue(host, "s", STREAM, durable=True)
    counts = QueueCounts(ready=1, consumers=1)
    assert host.delete_queue("s", ME, counts, if_unused=True, if_empty=True).queues == ("s",)


def test_a_deleted_queue_takes_its_bindings_along() -> None:
    host = virtual_host()
    queue(host, "q")
    exchange(host, "e")
    bind(host, to_queue("e", "q", "a"), to_queue("amq.topic", "q", "#"))
    assert host.router.route("e", "a") == ("q",)
    removed = host.delete_queue("q", ME, QueueCounts())
    assert {binding.source for binding in removed.bindings} == {"e", "amq.topic"}
    assert host.router.route("e", "a") == ()
    queue(host, "q")
    assert host.router.route("amq.topic", "a") == ()


def test_an_auto_delete_queue_goes_with_its_last_consumer() -> None:
    host = virtual_host()
    queue(host, "q", auto_delete=True)
    queue(host, "stays")
    assert host.consumer_gone("q", 1).queues == ()
    assert host.consumer_gone("stays", 0).queues == ()
    assert host.consumer_gone("gone", 0).queues == ()
    assert host.consumer_gone("q", 0).queues == ("q",)
