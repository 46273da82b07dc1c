"""The controller and its log directories: lost, failed, half deleted, unknown to the store."""

import asyncio
from pathlib import Path

import pytest

from headrace.cluster.controller import adopted_metadata
from headrace.cluster.store import znodes
from headrace.cluster.topics.creation import NewTopic
from headrace.log import file_names
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.ports.store import Create
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import append, created, play, room


def test_a_partition_whose_directory_is_gone_is_offline_and_not_empty(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2))
            assert [here.write("t", index) for index in range(2)] == [0, 0]
        disk.remove_tree("/data/t-1")
        for _ in range(2):
            async with room(tmp_path, disk) as here:
                assert here.broker.partition("t", 0).log.end_offset == 1
                with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                    here.broker.partition("t", 1)
        async with room(tmp_path, disk) as here:
            assert await here.controller.delete_topics(["t"]) == {"t": None}
            await created(here, NewTopic("t", 2))
            assert here.write("t", 1) == 0

    play(story())


def test_a_deletion_cut_by_a_kill_is_finished_by_the_next_start(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await created(here, NewTopic("t", 3), NewTopic("stays", 1))
            await here.store.multi([Create(f"{znodes.DELETE_TOPICS}/t", b"")])
            here.broker.stop_partition("t", 1, delete=True)
        async with room(tmp_path, disk) as here:
            assert set(here.broker.image.topics) == {"stays"}
            assert set(here.broker.partitions) == {("stays", 0)}
            assert await here.store.children(znodes.TOPICS) == ["stays"]

    play(story())


def test_directories_that_the_store_knows_nothing_of_become_topics_with_their_ids(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            topics = await created(here, NewTopic("t", 3))
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            producer = append(here.broker.partition("t", 2), producer_id=4711, producer_epoch=0,
                              base_sequence=0)  # fmt: skip
            assert producer.base_offset == 0
            await asyncio.sleep(0.01)
        (tmp_path / file_names.METADATA).unlink()
        async with room(tmp_path, disk, offsets_topic_num_partitions="7") as here:
            image = here.broker.image
            assert image.topics["t"].topic_id == topics[0].topic_id
            assert [one.leader_epoch for one in image.topics["t"].partitions] == [1, 1, 1]
            assert here.broker.partition("t", 2).high_watermark == 1
            # Found on disk: it keeps its 50 partitions, and is never cleaned by age.
            assert len(image.topics[OFFSETS_TOPIC].partitions) == 50
            assert here.broker.partition(OFFSETS_TOPIC, 0).log.config.compacted
            # Ids that adopted logs know are not given out again.
            assert await here.controller.next_producer_id() > 4711
        assert any("their settings are lost" in line for line in caplog.messages)

    play(story())


def test_an_empty_partition_lost_from_the_disk_is_made_anew_and_others_stay(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 2))
        disk.remove_tree("/data/t-1")
        async with room(tmp_path, disk) as here:
            assert here.write("t", 1) == 0

    play(story())


def test_new_partitions_go_to_the_directory_with_fewest(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), directories=("/one", "/two", "/three")) as here:
            await created(here, NewTopic("t", 8))
            assert sorted(len(one.logs) for one in here.broker.directories) == [2, 3, 3]

    play(story())


def test_a_failed_directory_takes_its_partitions_offline_and_creation_elsewhere(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            await created(here, NewTopic("t", 2))
            disk.fail_writes()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            disk.heal()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            assert here.write("t", 1) == 0
            await created(here, NewTopic("u", 2))
            offline, fine = here.broker.image.topics["t"].partitions
            assert (offline.leader, offline.offline) == (-1, (0,))
            assert (fine.leader, fine.offline) == (0, ())
            await here.controller.create_partitions("t", 3)
            assert here.broker.image.topics["t"].partitions[0].leader == -1
            failed = next(one for one in here.broker.directories if one.fenced)
            assert TopicPartition("u", 0) not in failed.logs

    play(story())


def test_a_topic_deleted_while_its_disk_had_failed_does_not_come_back(tmp_path: Path) -> None:
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            await created(here, NewTopic("t", 2))
            disk.fail_writes()
            with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
                here.write("t", 0)
            disk.heal()
            assert await here.controller.delete_topics(["t"]) == {"t": None}
            assert "t" not in here.broker.image.topics
            (refused,) = await here.controller.create_topics([NewTopic("t", 1)])
            assert isinstance(refused, ApiError)
            assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
            asked = (await here.controller.auto_create(["t"]))["t"]
            assert asked is not None
            assert asked.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with room(tmp_path, disk, directories=("/one", "/two")) as here:
            assert here.broker.image.topics == {}
            assert await here.store.children(znodes.DELETE_TOPICS) == []
            await created(here, NewTopic("t", 1))

    play(story())


def test_with_no_directory_left_nothing_is_created_and_the_store_stays_clean(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 1))
            disk.fail_writes()
            with pytest.raises(ApiError):
                here.write("t")
            disk.heal()
            (refused,) = await here.controller.create_topics([NewTopic("u", 1)])
            assert isinstance(refused, ApiError)
            assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert await here.store.children(znodes.TOPICS) == ["t"]

    play(story())


def test_each_start_leads_all_partitions_under_a_later_epoch_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopted_metadata, "OPERATIONS_PER_MULTI", 2)
    disk = SimDisk()

    async def story() -> None:
        async with room(tmp_path, disk) as here:
            await created(here, NewTopic("t", 5), NewTopic("u", 2))
            before = {key: found.leader_epoch for key, found in here.broker.partitions.items()}
            assert len(before) == 7
        async with room(tmp_path, disk) as here:
            after = {key: found.leader_epoch for key, found in here.broker.partitions.items()}
            assert after == {key: epoch + 1 for key, epoch in before.items()}

    play(story())
