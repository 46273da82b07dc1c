"""Which logs lack flushed records is stored in each log directory by itself."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cluster.membership.given_up_replicas import GivenUpReplicas
from headrace.model.nouns import Offset, TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
TOPIC_ID = b"i" * 16


class Disk:
    """A disk whose files are in memory; a directory of `full` accepts no writes."""

    def __init__(self, full: set[str]) -> None:
        self.files: dict[str, bytes] = {}
        self.full = full

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            done(work())
        except OSError as error:
            done(error)

    def replace(self, path: str, content: bytes) -> None:
        if path.rpartition("/")[0] in self.full:
            raise OSError(28, "no space")
        self.files[path.rpartition("/")[0]] = content


def directory(path: str, disk: Disk, missing: dict[TopicPartition, int]) -> Any:
    """A log directory whose checkpoints name `missing` logs."""
    forgotten: list[TopicPartition] = []
    loader = SimpleNamespace(
        flushed_before=lambda key, _: Offset(missing.get(key, 0)),
        forget_missing=lambda key, _: forgotten.append(key),
        forgotten=forgotten,
    )
    return SimpleNamespace(path=path, disk=disk, fenced=False, loader=loader)


@pytest.mark.parametrize("full", ["/a", "/b"])
def test_full_directory_keeps_no_other_from_storing_its_lost_logs(full: str) -> None:
    disk = Disk({full})
    directories = [directory("/a", disk, {T0: 7}), directory("/b", disk, {U0: 9})]
    broker: Any = SimpleNamespace(directories=directories)
    replicas = GivenUpReplicas(broker)
    replicas._ends = {"/a": {}, "/b": {}}
    replicas._written = {"/a": {}, "/b": {}}
    assert replicas.was_here(T0, TOPIC_ID)
    assert replicas.was_here(U0, TOPIC_ID)

    async def story() -> None:
        await replicas.write()
        other = "/b" if full == "/a" else "/a"
        assert list(disk.files) == [other]
        forgotten = {each.path: each.loader.forgotten for each in directories}
        assert forgotten == {full: [], other: [T0 if other == "/a" else U0]}
        disk.full.clear()
        await replicas.write()
        assert sorted(disk.files) == ["/a", "/b"], "it is written once there is space"
        forgotten = {each.path: each.loader.forgotten for each in directories}
        assert forgotten == {"/a": [T0], "/b": [U0]}, "each once, after its own file is written"

    asyncio.run(story())
