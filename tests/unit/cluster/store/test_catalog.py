"""The catalogue of the store: who the controller is, what is written, and what is read back."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import pytest

from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import Catalog
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, ProducerIdBlock, TopicNode
from headrace.model.errors import ApiError, ConfigError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.ports.store import BadVersion, NoNode, Set
from tests.support.sim.catalogs import play

ONE, TWO = BrokerId(1), BrokerId(2)
STATE = PartitionState(ONE, LeaderEpoch(4), (ONE, TWO), 3)
TOPIC_ID = bytes(range(16))


async def put(catalog: Catalog, path: str, config: Mapping[str, str]) -> None:
    await catalog.configs.change(path, lambda _: config)


async def notices(catalog: Catalog) -> list[str]:
    return await catalog.store.children(znodes.CONFIG_CHANGES)


def test_an_election_raises_the_epoch_in_the_store_by_one() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.elect(ONE, 1700)
        assert first.controller_epoch == 1
        assert (await first.store.get(znodes.CONTROLLER_EPOCH)).value == b"1"
        node = await first.store.get(znodes.CONTROLLER)
        assert node.value == znodes.encode_controller(ONE, 1700)
        assert node.owner == first.store.session
        assert await first.holds_controller()
        assert not await second.holds_controller()
        assert await second.controller() == ONE
        await first.check_controller()
        await first.multi([Set(znodes.TOPICS, b"written")])
        assert (await first.store.get(znodes.TOPICS)).value == b"written"

    play(story)


def test_who_comes_second_is_not_elected_and_keeps_the_epoch_it_had() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.elect(ONE, 1)
        assert not await second.elect(TWO, 2)
        assert second.controller_epoch == 0
        assert (await first.store.get(znodes.CONTROLLER_EPOCH)).value == b"1"
        with pytest.raises(ApiError) as refused:
            await second.check_controller()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    play(story)


def test_who_was_the_controller_is_refused_and_writes_nothing_once_another_is() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.elect(ONE, 1)
        await first.store.delete(znodes.CONTROLLER)
        assert await second.elect(TWO, 2)
        assert second.controller_epoch == 2
        await second.check_controller()
        with pytest.raises(ApiError) as refused:
            await first.check_controller()
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(BadVersion):
            await first.multi([Set(znodes.TOPICS, b"late")])
        assert (await first.store.get(znodes.TOPICS)).value == b""

    play(story)


def test_who_is_the_controller_still_goes_on_under_the_same_epoch() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.elect(ONE, 1)
        again = Catalog(first.store)
        assert await again.resume()
        assert again.controller_epoch == 1
        await again.check_controller()
        await again.multi([Set(znodes.TOPICS, b"written")])
        assert not await second.resume()
        assert second.controller_epoch == 0

    play(story)


def test_who_resigned_writes_nothing_more() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.elect(ONE, 1)
        first.resign()
        with pytest.raises(BadVersion):
            await first.multi([Set(znodes.TOPICS, b"late")])
        with pytest.raises(ApiError, match="another broker has become the controller"):
            await first.check_controller()

    play(story)


def test_topics_are_read_with_their_settings_states_and_versions() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        store = first.store
        node = TopicNode({0: (ONE, TWO), 1: (TWO, ONE)}, TOPIC_ID)
        for name in ("a", "b"):
            await store.create(znodes.topic_path(name), znodes.encode_topic(node))
        await store.set(znodes.topic_path("a"), znodes.encode_topic(node))
        config = znodes.encode_config({"retention.ms": "5"})
        await store.create(znodes.topic_config_path("b"), config)
        path = znodes.state_path("b", 1)
        await store.create(path, b"", parents=True)
        await store.set(path, znodes.encode_state(STATE))
        found = await first.topics()
        assert found == {
            "a": StoredTopic("a", node, {}, {}, 1, {}),
            "b": StoredTopic("b", node, {"retention.ms": "5"}, {1: STATE}, 0, {1: 1}),
        }
        assert await second.topics(["b", "gone"]) == {"b": found["b"]}
        assert await second.topics([]) == {}
        assert await second.topic_configs() == {"a": {}, "b": {"retention.ms": "5"}}

    play(story)


def test_topics_are_written_with_the_ids_they_were_given() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        old, new = TopicNode({0: (ONE,)}, None), TopicNode({0: (ONE,)}, TOPIC_ID)
        await first.store.create(znodes.topic_path("t"), znodes.encode_topic(old))
        await first.give_topic_ids([StoredTopic("t", new, {})])
        assert (await second.topics())["t"].node == new

    play(story)


def test_partitions_without_a_node_are_given_one_and_the_others_stay() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        node = TopicNode({0: (ONE,), 1: (ONE,)}, TOPIC_ID)
        await first.store.create(znodes.topic_path("t"), znodes.encode_topic(node))
        path = znodes.state_path("t", 1)
        await first.store.create(path, znodes.encode_state(STATE), parents=True)
        for _ in range(2):
            await first.complete_partitions((await first.topics()).values())
        assert await first.store.children(znodes.partitions_path("t")) == ["0", "1"]
        assert (await first.topics())["t"].states == {1: STATE}

    play(story)


def test_a_deleted_topic_leaves_nothing_in_the_store() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        store = first.store
        for name in ("kept", "t"):
            await store.create(znodes.topic_path(name), b"")
            await store.create(znodes.topic_config_path(name), b"")
            await store.create(f"{znodes.DELETE_TOPICS}/{name}", b"")
            for index in range(3):
                await store.create(znodes.state_path(name, index), b"", parents=True)
        assert await first.deletions() == ["kept", "t"]
        await first.end_deletion("t")
        assert await first.deletions() == ["kept"]
        assert await store.children(znodes.TOPICS) == ["kept"]
        assert await store.children(znodes.TOPIC_CONFIGS) == ["kept"]

    play(story)


def test_a_topic_of_many_partitions_is_forgotten_in_several_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        monkeypatch.setattr("headrace.cluster.store.catalog.OPERATIONS_PER_MULTI", 4)
        done: list[int] = []
        multi = first.multi

        async def counted(operations: Any) -> Any:
            done.append(len(operations))
            return await multi(operations)

        monkeypatch.setattr(first, "multi", counted)
        await first.store.create(f"{znodes.DELETE_TOPICS}/t", b"")
        for index in range(3):
            await first.store.create(znodes.state_path("t", index), b"", parents=True)
        await first.end_deletion("t")
        assert await first.store.children(znodes.TOPICS) == []
        # Three states and their three partitions, their parent, the topic and its deletion.
        assert done == [4, 4, 1]

    play(story)


def test_quotas_of_users_their_clients_clients_and_addresses_are_read_by_path() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        paths = [
            f"{znodes.USER_CONFIGS}/alice",
            f"{znodes.USER_CONFIGS}/alice/clients/app",
            f"{znodes.USER_CONFIGS}/bob",
            f"{znodes.CLIENT_CONFIGS}/app",
            f"{znodes.IP_CONFIGS}/10.0.0.1",
        ]
        for number, path in enumerate(paths):
            await put(first, path, {"rate": str(number)})
        await put(first, f"{znodes.USER_CONFIGS}/carol/clients/app", {"rate": "9"})
        await first.store.delete(f"{znodes.USER_CONFIGS}/carol/clients/app")
        found = await second.configs.quotas()
        assert {path: found[path] for path in paths} == {
            path: {"rate": str(number)} for number, path in enumerate(paths)
        }

    play(story)


def test_settings_altered_at_run_time_are_read_for_all_brokers_and_for_one() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.configs.of_broker(ONE) == ({}, {})
        await put(first, znodes.broker_config_path("1"), {"a": "own"})
        assert await first.configs.of_broker(ONE) == ({}, {"a": "own"})
        shared = znodes.broker_config_path(znodes.CLUSTER_DEFAULT)
        await put(first, shared, {"a": "all"})
        assert await second.configs.of_broker(ONE) == ({"a": "all"}, {"a": "own"})
        assert await second.configs.of_broker(TWO) == ({"a": "all"}, {})

    play(story)


def test_settings_are_written_again_in_place_and_dropped_and_each_change_is_told() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        path = f"{znodes.USER_CONFIGS}/alice/clients/app"
        for number in range(2):
            await put(first, path, {"rate": str(number)})
        assert await second.configs.at(path) == {"rate": "1"}
        assert await second.configs.entities(f"{znodes.USER_CONFIGS}/alice/clients") == {
            "app": {"rate": "1"}
        }
        for _ in range(2):
            await first.configs.change(path, lambda _: {}, drop_empty=True)
        assert await second.configs.at(path) == {}
        told = await notices(first)
        assert len(told) == 3  # nothing was dropped the second time
        node = await first.store.get(f"{znodes.CONFIG_CHANGES}/{told[-1]}")
        assert node.value == znodes.encode_config_change("users/alice/clients/app")

    play(story)


def test_producer_ids_are_reserved_block_by_block_by_all_brokers() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.reserve_producer_ids(ONE, 1000) == ProducerIdBlock(ONE, 0, 999)
        assert await second.reserve_producer_ids(TWO, 1000) == ProducerIdBlock(TWO, 1000, 1999)
        node = await first.store.get(znodes.PRODUCER_ID_BLOCK)
        assert znodes.decode_producer_ids(node.value) == ProducerIdBlock(TWO, 1000, 1999)

    play(story)


@pytest.mark.parametrize(
    ("above", "first_id"), [(-1, 0), (0, 10), (1, 10), (9, 10), (10, 20), (19, 20), (25, 30)]
)
def test_producer_ids_begin_with_the_block_above_what_was_used(above: int, first_id: int) -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        block = await first.reserve_producer_ids(ONE, 10, above=above)
        assert block == ProducerIdBlock(ONE, first_id, first_id + 9)

    play(story)


def test_the_next_block_of_producer_ids_stays_where_it_is_if_it_is_above_what_was_used() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        await first.reserve_producer_ids(ONE, 7)
        assert (await second.reserve_producer_ids(TWO, 10, above=6)).first == 7

    play(story)


def deleted_first(catalog: Catalog, path: str) -> Callable[[], Coroutine[Any, Any, None]]:
    """Delete a node if it is there, as in a store that was not restored whole."""

    async def delete() -> None:
        with suppress(NoNode):
            await catalog.store.delete(path)

    return delete


class _Slower:
    """A store in which another broker writes first, each time this one is about to."""

    def __init__(self, store: Any, first: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._store = store
        self._first = first
        self.times = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, *args: Any, **options: Any) -> Any:
        if self.times:
            self.times -= 1
            await self._first()
        return await self._store.create(*args, **options)


def test_a_store_without_a_cluster_id_is_given_that_of_the_first_broker() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        await deleted_first(first, znodes.CLUSTER_ID)()
        await first.cluster_id("ours", ["/data"])
        assert await second.known_cluster_id() == "ours"
        await second.cluster_id("ours", ["/data"])
        with pytest.raises(ConfigError, match=r"/data belongs to cluster other .*store to ours"):
            await second.cluster_id("other", ["/data"])

    play(story)


@pytest.mark.parametrize(("faster", "refused"), [("ours", False), ("another", True)])
def test_of_two_brokers_that_start_at_once_the_slower_one_takes_the_others_cluster_id(
    faster: str, refused: bool
) -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        await deleted_first(first, znodes.CLUSTER_ID)()
        slower: Any = _Slower(first.store, lambda: second.cluster_id(faster, ["/data"]))
        first.store = slower
        if refused:
            with pytest.raises(ConfigError, match="store to another"):
                await first.cluster_id("ours", ["/data"])
        else:
            await first.cluster_id("ours", ["/data"])
        assert await second.known_cluster_id() == faster

    play(story)


def test_producer_ids_of_a_store_that_has_none_yet_are_given_once_whoever_is_faster() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        await deleted_first(first, znodes.PRODUCER_ID_BLOCK)()
        slower: Any = _Slower(first.store, lambda: second.reserve_producer_ids(TWO, 10))
        first.store = slower
        assert await first.reserve_producer_ids(ONE, 10) == ProducerIdBlock(ONE, 10, 19)
        node = await second.store.get(znodes.PRODUCER_ID_BLOCK)
        assert znodes.decode_producer_ids(node.value) == ProducerIdBlock(ONE, 10, 19)

    play(story)


def test_settings_of_a_kind_that_nobody_has_set_are_none() -> None:
    async def story(first: Catalog, second: Catalog) -> None:
        assert await first.configs.entities("/config/there_is_no_such_kind") == {}

    play(story)
