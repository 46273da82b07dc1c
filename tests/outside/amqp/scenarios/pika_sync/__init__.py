"""Scenarios of pika's BlockingConnection."""

from tests.outside.amqp.scenarios.pika_sync import (
    connections,
    consuming,
    dead_letters,
    exchanges,
    kept_queues,
    programs,
    publishing,
    queues,
)
from tests.outside.amqp.scenarios.pika_sync.kit import scenario

__all__ = [
    "connections",
    "consuming",
    "dead_letters",
    "exchanges",
    "kept_queues",
    "programs",
    "publishing",
    "queues",
    "scenario",
]
