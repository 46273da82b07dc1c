"""Publishes to a queue that this broker begins to host follow those that wait for its leader."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.queues.engine.queue_host import QueueHost
from headrace.record.record_parts import NO_PRODUCER
from headrace.remote_queues.leader.leader_publishes import Taken, published_to
from headrace.remote_queues.messages import Publish
from tests.support.amqp.channels import QueueRoom
from tests.support.queues.late_target import LateTarget
from tests.support.queues.port_place import persistent

if TYPE_CHECKING:
    from headrace.queues.port import Queue


def hosted_late() -> tuple[QueueHost, LateTarget]:
    """Make a host with a queue that publishes have waited for elsewhere, hosted just now."""
    room = QueueRoom()
    room.client().declare("q", durable=True)
    host = room.broker.virtual_hosts.hosts["/"]
    late = LateTarget()
    late.publish(persistent("first"), 0.0)
    host.targets.elsewhere["q"] = cast("Queue", late)
    host.host(host.model.queues["q"])
    return host, late


def published(host: QueueHost, body: str) -> dict[Any, Any]:
    awaited: dict[Any, Any] = {}
    assert host.publish(["q"], persistent(body), awaited, 7)
    return awaited


def test_publish_follows_those_that_wait_elsewhere() -> None:
    host, late = hosted_late()
    assert list(published(host, "second")) == [late]
    assert late.bodies == [b"first", b"second"]
    late.decide()
    published(host, "third")  # the second was undecided
    late.decide()
    late.decide()
    published(host, "fourth")
    assert late.bodies == [b"first", b"second", b"third"]
    assert host.queues["q"].ready == 1


@pytest.mark.parametrize("hosts_again", [False, True])
def test_queue_that_ends_meanwhile_is_not_published_to(hosts_again: bool) -> None:
    host, late = hosted_late()
    former = host.queues["q"]
    host.unhost(former)
    if hosts_again:
        host.host(host.model.queues["q"])
        published(host, "second")
    late.decide()
    late.decide()
    assert host.targets["q"] is host.queues["q"] is not former
    assert former.ready == 0


def test_publish_of_a_home_goes_to_the_hosted_queue_at_once() -> None:
    host, late = hosted_late()
    call = Publish(1, 1, False, [persistent("of a home").message], 0, NO_PRODUCER, 0)
    assert published_to(host, host.queues["q"], call, {}) == Taken([])
    assert late.bodies == [b"first"]
    assert host.queues["q"].ready == 1


def test_queue_without_waiting_publishes_is_published_to_at_once() -> None:
    host, late = hosted_late()
    late.decide()
    published(host, "second")
    assert late.bodies == [b"first"]
    assert host.queues["q"].ready == 1


def test_purge_of_a_hosted_queue_counts_while_publishes_go_elsewhere() -> None:
    host, _ = hosted_late()
    counted: list[Any] = []
    host.queues["q"].publish(persistent("sent by another broker"), 0.0)
    host.purge(host.queues["q"], counted.append)
    assert counted == [1]
