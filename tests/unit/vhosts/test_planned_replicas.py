"""The brokers that are planned for a queue's messages."""

import pytest

from headrace.model.nouns import BrokerId
from headrace.queues.model.arguments import queue_settings, with_queue_type
from headrace.queues.model.declarations import DeclaredQueue
from headrace.vhosts.declarations.planned_replicas import planned_replicas
from headrace.wire.amqp.field_table import FieldTable

BROKERS = [BrokerId(number) for number in (4, 1, 3, 2)]
QUORUM: FieldTable = {"x-queue-type": "quorum"}
LED = {1: 5, 2: 3, 3: 4, 4: 3}


def declared(arguments: FieldTable, *, durable: bool = True) -> DeclaredQueue:
    found = with_queue_type(arguments)
    return DeclaredQueue("q", durable, False, None, found, queue_settings(found, "queue 'q'"))


@pytest.mark.parametrize(
    ("arguments", "replicas"),
    [
        ({}, (3, 4, 1)),
        (QUORUM, (3, 4, 1)),
        (QUORUM | {"x-quorum-initial-group-size": 1}, (3,)),
        (QUORUM | {"x-quorum-initial-group-size": 9}, (3, 4, 1, 2)),
        ({"x-queue-leader-locator": "balanced"}, (2, 3, 4)),
        ({"x-queue-master-locator": "min-masters"}, (2, 3, 4)),
        ({"x-max-priority": 5}, (3,)),
        ({"x-queue-type": "stream", "x-initial-cluster-size": 2}, (3, 4)),
    ],
)
def test_replicas_follow_the_arguments(arguments: FieldTable, replicas: tuple[int, ...]) -> None:
    assert planned_replicas(declared(arguments), BrokerId(3), BROKERS, LED) == replicas


@pytest.mark.parametrize(
    ("arguments", "replicas"),
    [
        ({}, (3,)),
        (QUORUM, (3, 4, 1)),
        ({"x-queue-type": "stream"}, (3, 4, 1)),
    ],
)
def test_setting_is_the_number_of_replicas_of_classic_queues(
    arguments: FieldTable, replicas: tuple[int, ...]
) -> None:
    assert planned_replicas(declared(arguments), BrokerId(3), BROKERS, LED, 1) == replicas


def test_transient_queue_has_no_replicas() -> None:
    assert planned_replicas(declared({}, durable=False), BrokerId(3), BROKERS, LED) == ()


def test_broker_that_is_not_registered_leads_nothing() -> None:
    assert planned_replicas(declared({}), BrokerId(9), BROKERS, LED) == (2, 3, 4)
