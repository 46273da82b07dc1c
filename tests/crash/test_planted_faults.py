"""Each kind of mistake a log can make is planted once; the enumeration must find it."""

from collections.abc import Callable, Collection

import pytest

from headrace.log.directory.checkpoints import Checkpoints, Picture
from headrace.log.directory.directory_loader import DirectoryLoader
from headrace.log.flusher import Strategy, fdatasync_each
from headrace.log.producers import producer_snapshot
from headrace.log.recovery.known import Known
from headrace.log.segment.segment import Segment
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done
from headrace.ports.disk import Disk, DiskFile
from headrace.testing.disk import Op, SimDisk, SimFile
from tests.crash import stories
from tests.support.log.crash import SMALL, Story, enumerate_cuts
from tests.support.log.log import World

Play = Callable[[Story], None]


def findings(
    play: Play, disk: SimDisk | None = None, strategy: Strategy = fdatasync_each
) -> list[str]:
    story = Story(World(disk, config=SMALL, strategy=strategy))
    play(story)
    return enumerate_cuts(story, samples=3)[1]


def answer_first(disk: Disk, files: Collection[DiskFile], done: Done[OSError | None]) -> None:
    """Tell that it is durable, then make it so."""
    done(None)
    disk.flush(files, lambda _: None)


def forget_the_oldest(disk: Disk, files: Collection[DiskFile], done: Done[OSError | None]) -> None:
    """Of several files the first is left out, as if only the active one counted."""
    disk.flush(list(files)[-1:], done)


@pytest.mark.parametrize("fault", [answer_first, forget_the_oldest], ids=lambda one: one.__name__)
def test_a_flusher_that_lies_is_found(fault: Strategy) -> None:
    assert any("were flushed" in one for one in findings(stories.rolls, strategy=fault))


class NoDirectorySync(SimDisk):
    """Names are never made durable."""

    def sync_directory(self, path: str) -> None:
        self._node(path)


class ReplaceWithoutSync(SimDisk):
    """A checkpoint's content is not flushed before it takes its place."""

    def replace(self, path: str, content: bytes) -> None:
        file = self.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        file.close()
        self.rename(f"{path}.tmp", path)
        self.sync_directory(path.rpartition("/")[0])


class RenameBeforeSync(SimDisk):
    """The name first, then the content."""

    def replace(self, path: str, content: bytes) -> None:
        file = self.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        self.rename(f"{path}.tmp", path)
        self.sync_directory(path.rpartition("/")[0])
        file.sync()
        file.close()


@pytest.mark.parametrize(
    ("disk", "play"),
    [
        (NoDirectorySync, stories.rolls),
        (NoDirectorySync, stories.creations_and_a_deletion),
        (ReplaceWithoutSync, stories.deleted_records),
        (RenameBeforeSync, stories.deleted_records),
    ],
    ids=lambda one: one.__name__,
)
def test_a_disk_used_in_the_wrong_order_is_found(disk: type[SimDisk], play: Play) -> None:
    assert findings(play, disk())


def test_a_checkpoint_ahead_of_the_flush_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Checkpoints.picture

    def ahead(self: Checkpoints, logs: dict[TopicPartition, object]) -> Picture:
        flushed = {}
        for place, log in logs.items():
            flushed[place], log.flushed_offset = log.flushed_offset, log.end_offset  # type: ignore[attr-defined]
        try:
            return honest(self, logs)  # type: ignore[arg-type]
        finally:
            for place, offset in flushed.items():
                logs[place].flushed_offset = offset  # type: ignore[attr-defined]

    monkeypatch.setattr(Checkpoints, "picture", ahead)
    assert any("out of service" in one for one in findings(stories.checkpoints))


def test_a_clean_stop_that_was_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = DirectoryLoader._known

    def believed(self: DirectoryLoader, partition: TopicPartition) -> Known:
        return honest(self, partition)._replace(clean=True)

    monkeypatch.setattr(DirectoryLoader, "_known", believed)
    assert findings(stories.rolls)


def test_a_torn_index_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery that takes the index files as they are instead of building them again."""

    def keep_what_is_there(self: Segment, swept: object) -> None:
        for index in (self.index, self.time_index):
            index.load()
        self._max_known = True

    monkeypatch.setattr(Segment, "take_swept", keep_what_is_there)
    assert findings(stories.appends_and_flushes)


class LazySnapshots(SimDisk):
    """Producer snapshots are never flushed: what is left of them any cut decides."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> DiskFile:
        file = super().open(path, create=create, writable=writable)
        if path.endswith(".snapshot") and isinstance(file, SimFile):
            self.lazy = {*getattr(self, "lazy", ()), file.node}
        return file

    def record(self, operation: Op) -> None:
        if operation.kind != "sync" or operation.node not in getattr(self, "lazy", ()):
            super().record(operation)


def test_snapshots_that_were_never_flushed_do_no_harm() -> None:
    assert findings(stories.producers_through_restarts, LazySnapshots()) == []


def test_a_torn_snapshot_that_is_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_checksum(content: bytes, path: str) -> list[producer_snapshot.SnapshotEntry]:
        entries = content[producer_snapshot._ENTRIES_AT :]
        whole = len(entries) // producer_snapshot._ENTRY.size * producer_snapshot._ENTRY.size
        unpacked = producer_snapshot._ENTRY.iter_unpack(entries[:whole])
        return [producer_snapshot.SnapshotEntry(*fields) for fields in unpacked]

    monkeypatch.setattr("headrace.log.producers.kept_states.read_snapshot", without_checksum)
    # The batches contradict it as well, unless they are not asked.
    monkeypatch.setattr("headrace.log.recovery.replay._remember_history", lambda *_: True)
    found = findings(stories.producers_through_restarts, LazySnapshots())
    assert any("producer" in one for one in found)
