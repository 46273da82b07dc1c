"""Stock clients against a broker of ours: each does each scenario."""

import uuid
from collections.abc import Callable

import pytest

from tests.outside.clients import scenarios_newer, scenarios_txn
from tests.outside.clients.clients.aio import Aio
from tests.outside.clients.clients.base import Client
from tests.outside.clients.clients.confluent import Confluent
from tests.outside.clients.clients.kafka_python import KafkaPython
from tests.outside.clients.scenarios import SCENARIOS, round_trip, some

assert scenarios_newer  # they enter themselves into SCENARIOS
assert scenarios_txn

CLIENTS: dict[str, Callable[..., Client]] = {
    Aio.name: Aio,
    Confluent.name: Confluent,
    KafkaPython.name: KafkaPython,
}
"""Made with the brokers' addresses, and how many replicas its topics are to have."""


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.filterwarnings("default")
def test_a_stock_client_does(client: str, scenario: str, bootstrap: str) -> None:
    library = CLIENTS[client](bootstrap)
    if scenario in library.unsupported():
        pytest.skip(f"{client} has no such feature")
    SCENARIOS[scenario](library, f"t-{uuid.uuid4()}")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.filterwarnings("default")
def test_what_one_client_writes_every_other_reads(codec: str, bootstrap: str) -> None:
    for make_writer in CLIENTS.values():
        writer, topic = make_writer(bootstrap), f"t-{uuid.uuid4()}"
        records = some(50)
        round_trip(writer, topic, records, codec)
        for make_reader in CLIENTS.values():
            assert make_reader(bootstrap).consume(topic, len(records)) == records
