"""The scenarios of all clients."""

from tests.outside.amqp.scenarios import pika_sync
from tests.outside.amqp.scenarios.scenario import Scenario

SCENARIOS: list[Scenario] = [*pika_sync.scenario]
