"""The scenarios of all clients."""

from tests.outside.amqp.scenarios import (
    aio_pika_client,
    celery_client,
    example_programs,
    kombu_client,
    other_languages,
    pika_sync,
)
from tests.outside.matrix.scenario import Scenario

SCENARIOS: list[Scenario] = [
    *pika_sync.scenario,
    *aio_pika_client.scenario,
    *kombu_client.scenario,
    *celery_client.scenario,
    *other_languages.SCENARIOS,
    *example_programs.python,
    *example_programs.celery,
    *example_programs.go,
]
