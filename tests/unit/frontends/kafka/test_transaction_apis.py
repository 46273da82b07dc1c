"""Transactions as frames: every version of every API, against a whole broker but its sockets."""

from pathlib import Path

import pytest

from tests.support.coordination.transactional_producer import GROUP, ID, TOPIC, Producer, tell


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_commits_in_every_version(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        assert await one.init(min(version, 5)) == "NONE"
        assert await one.add(0, 1, version=version) == ["NONE", "NONE"]
        assert await one.write(b"a", version=3 + version) == "NONE"
        assert await one.write(b"b", 1) == "NONE"
        assert await one.read() == []
        assert await one.read(committed=False) == [b"a"]
        assert await one.stable_end() == 0
        assert await one.end(version=version) == "NONE"
        assert await one.add(0, version=version) == ["NONE"]  # so the markers are there
        assert (await one.read(), await one.read(1)) == ([b"a"], [b"b"])
        assert await one.stable_end() == 2

    tell(tmp_path, story)


def test_an_aborted_transaction_is_left_out_for_readers_of_committed_data(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            assert await one.add(0) == ["NONE"]
            assert await one.write(value) == "NONE"
            assert await one.end(commit) == "NONE"
        await one.add(1)
        assert await one.read() == [b"a", b"c"]
        assert await one.read(committed=False) == [b"a", b"b", b"c"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [12])
def test_from_produce_v12_on_partitions_join_by_themselves(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        epochs = []
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            assert await one.write(value, version=version) == "NONE"
            assert await one.write(value, version=version) == "NONE"
            assert await one.write(value, 1, version=version) == "NONE"
            assert await one.end(commit, version=5) == "NONE"
            epochs.append(one.epoch)
        assert epochs == [1, 2, 3]
        assert await one.write(b"d", 2, version=version) == "NONE"
        assert await one.read() == [b"a", b"a", b"c", b"c"]
        assert await one.read(1) == [b"a", b"c"]

    tell(tmp_path, story)


def test_a_first_batch_of_version_2_begins_with_sequence_0(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        refused = await one.write(b"a", version=12, base_sequence=5)
        assert refused == "OUT_OF_ORDER_SEQUENCE_NUMBER"

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")],
)
def test_a_batch_outside_of_a_transaction_is_refused(
    tmp_path: Path, version: int, code: str
) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        assert await one.write(b"a", version=version) == code
        await one.add(1)
        assert await one.write(b"a", version=version) == code
        assert await one.write(b"a", 1, version=version) == "NONE"
        assert await one.write(b"x", 1, transactional=False) == "INVALID_TXN_STATE"

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("version", "code"), [(9, "INVALID_PRODUCER_EPOCH"), (12, "INVALID_PRODUCER_EPOCH")]
)
def test_a_batch_of_a_fenced_producer_is_refused(tmp_path: Path, version: int, code: str) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        assert await one.write(b"a") == "NONE"
        other = Producer(one.here)
        assert await other.init() == "NONE"
        assert await one.write(b"b", version=version) == code
        assert await one.write(b"b", 1, version=version) == code

    tell(tmp_path, story)


@pytest.mark.parametrize("version", range(6))
def test_fencing_is_told_in_every_versions_words(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await Producer(one.here).init()
        told = "INVALID_PRODUCER_EPOCH" if version < 2 else "PRODUCER_FENCED"
        assert await one.add(0, version=min(version, 5)) == [told]
        assert await one.end(version=version) == told
        assert await one.add_offsets(min(version, 4)) == told

    tell(tmp_path, story)


def test_one_partition_that_does_not_exist_keeps_the_others_out(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        assert await one.add(0, 9) == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_may_ask_whether_a_partition_is_in(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        no = "TRANSACTION_ABORTABLE" if version == 5 else "INVALID_TXN_STATE"
        assert await one.add(0, 1, version=version, verify=True) == ["NONE", no]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_if_their_transaction_commits(
    tmp_path: Path, version: int, commit: bool
) -> None:
    async def story(one: Producer) -> None:
        groups = one.here.coordinators.groups
        await one.init()
        if version < 5:
            assert await one.commit_offset(5, version) == "INVALID_TXN_STATE"
            assert await one.add_offsets() == "NONE"
        assert await one.commit_offset(5, version) == "NONE"
        assert await one.commit_offset(5, version, 77) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert groups.offset(GROUP, TOPIC, 0) is None
        assert groups.shard(GROUP).offsets.is_unstable((GROUP, TOPIC, 0))
        assert await one.end(commit) == "NONE"
        await one.add(0)
        found = groups.offset(GROUP, TOPIC, 0)
        assert (found is not None and found.offset == 5) is commit

    tell(tmp_path, story)


def test_offsets_of_a_fenced_producer_are_refused(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add_offsets()
        await Producer(one.here).init()
        assert await one.commit_offset(5) == "PRODUCER_FENCED"

    tell(tmp_path, story)


def test_a_coordinator_that_is_not_here_is_told(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        led = one.here.coordinators.transactions.led
        led.resign(led.partition_for(ID))
        assert await one.init() == "NOT_COORDINATOR"
        assert await one.add(0) == ["NOT_COORDINATOR"]
        assert await one.end() == "NOT_COORDINATOR"
        assert await one.write(b"a") == "NOT_ENOUGH_REPLICAS"

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [0, 3])
def test_clients_add_no_internal_topics_and_hear_of_all_that_is_wrong_at_once(
    tmp_path: Path, version: int
) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        for topic in ("__consumer_offsets", "__transaction_state"):
            refused = ["TOPIC_AUTHORIZATION_FAILED"]
            assert await one.add(0, version=version, topic=topic) == refused
        assert await one.add(0, version=version, topic="absent") == ["UNKNOWN_TOPIC_OR_PARTITION"]
        assert await one.end(version=version) == "INVALID_TXN_STATE", "nothing was begun"

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_internal_topics_for_their_clients(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        assert await one.add(0, version=version, topic="__consumer_offsets") == ["NONE"]

    tell(tmp_path, story)
