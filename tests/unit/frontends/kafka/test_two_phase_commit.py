"""InitProducerId v6 as frames (KIP-939): as Kafka 4.3 where the setting is off, whole where on."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import TRANSACTIONS_TOPIC
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.coordination.transactional_producer import ID, MINUTE, TOPIC, Producer
from tests.support.processes.broker import play, room

K = ApiKey


def tell(
    place: Path, story: Callable[[Producer], Coroutine[Any, Any, None]], *, enabled: bool
) -> None:
    async def run() -> None:
        settings: dict[str, Any] = {"transaction_two_phase_commit_enable": str(enabled).lower()}
        async with room(place, SimDisk(), **settings) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 3)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            await story(Producer(here))

    play(run())


@pytest.mark.parametrize("enabled", [False, True])
def test_v6_is_advertised_while_two_phase_commit_is_enabled(tmp_path: Path, enabled: bool) -> None:
    async def story(one: Producer) -> None:
        answer = await one.client.ask(
            K.API_VERSIONS, 3, client_software_name="a", client_software_version="1"
        )
        highest = {int(api.api_key): api.max_version for api in answer.api_keys}
        assert highest[K.INIT_PRODUCER_ID] == (6 if enabled else 5)

    tell(tmp_path, story, enabled=enabled)


def test_where_it_is_off_it_is_refused_as_by_kafka_4_3_and_v6_is_served_without_it(
    tmp_path: Path,
) -> None:
    async def story(one: Producer) -> None:
        assert await one.init(6, enable2_pc=True) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        assert await one.init(6, keep_prepared_txn=True) == "UNSUPPORTED_VERSION"
        assert (one.producer_id, one.epoch) == (-1, -1)
        assert await one.init(6) == "NONE"
        assert one.epoch == 0

    tell(tmp_path, story, enabled=False)


def test_a_prepared_transaction_is_found_described_and_committed_by_another(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        assert await one.init(6, enable2_pc=True) == "NONE"
        assert await one.write(b"a", version=12) == "NONE"
        described = await one.client.ask(K.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(ID,))
        (state,) = described.transaction_states
        assert (state.transaction_state, state.transaction_timeout.total_seconds()) == (
            "Ongoing",
            2147483.647,
        )
        other = Producer(one.here)
        asked: dict[str, Any] = {
            "transactional_id": ID,
            "transaction_timeout": MINUTE,
            "enable2_pc": True,
            "keep_prepared_txn": True,
        }
        answer = await other.client.ask(K.INIT_PRODUCER_ID, 6, **asked)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (
            one.producer_id,
            one.epoch,
        )
        other.producer_id, other.epoch = answer.producer_id, answer.producer_epoch
        assert await one.end(version=5) == "PRODUCER_FENCED"
        assert await other.end(version=5) == "NONE"
        assert await other.add(1) == ["NONE"]  # so the markers are there
        assert await other.read() == [b"a"]

    tell(tmp_path, story, enabled=True)


def test_what_is_not_kept_is_aborted_and_says_so_with_no_producer(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        assert await one.init(6, enable2_pc=True) == "NONE"
        assert await one.write(b"a", version=12) == "NONE"
        asked: dict[str, Any] = {
            "transactional_id": ID,
            "transaction_timeout": MINUTE,
            "enable2_pc": True,
        }
        answer = await one.client.ask(K.INIT_PRODUCER_ID, 6, **asked)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
        asked["keep_prepared_txn"] = True
        answer = await one.client.ask(K.INIT_PRODUCER_ID, 6, **asked)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
        assert await one.read() == []

    tell(tmp_path, story, enabled=True)
