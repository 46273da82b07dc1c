"""Whose log directories are, where they do not say so."""

from pathlib import Path

from headrace.cluster.topics.creation import NewTopic
from headrace.log.directory.log_directory import read_identity
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import play, room


def test_directories_that_name_no_cluster_are_claimed_for_the_stores(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk) as here:
            await here.controller.create_topics([NewTopic("t", 1)])
            cluster_id = here.broker.cluster_id
        disk.remove("/data/meta.properties")
        async with room(tmp_path, disk) as here:
            assert here.broker.cluster_id == cluster_id
            assert here.write("t") == 0
        found = read_identity(disk, "/data")
        assert found is not None
        assert found.cluster_id == cluster_id

    play(story())
