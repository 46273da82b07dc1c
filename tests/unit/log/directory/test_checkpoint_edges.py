"""Checkpoints: which of two writers has the last word, what is forgotten, what comes first."""

from typing import TYPE_CHECKING

import pytest

from headrace.log import file_names, text_files
from headrace.log.compaction.cleaner_checkpoint import CleanerOffsets
from headrace.log.directory.log_directory import AT_REST_EVERY
from headrace.log.directory.state_files.durable_read_bounds import NAME
from headrace.log.directory.unchanged_logs import FILE_NAME
from headrace.logtools.verify import Report, verify_path
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk, SimFile
from tests.support.log.log import PLACE, TOPIC_ID, World, append, content, overwrite, values

if TYPE_CHECKING:
    from headrace.log.log import Log

OTHER = TopicPartition("other", 1)


def said(world: World, name: str = file_names.RECOVERY_POINTS) -> dict[TopicPartition, Offset]:
    return text_files.read_offsets(content(world.disk, f"/data/{name}"), name)


def node(disk: SimDisk, path: str) -> int:
    file = disk.open(path, writable=False)
    assert isinstance(file, SimFile)
    file.close()
    return file.node


def writing(world: World) -> bool:
    """Whether checkpoints are being written now."""
    return world.directory.checkpoints.writing


def flushed(world: World, count: int, place: TopicPartition = PLACE) -> None:
    """A log of so many records, all flushed."""
    for number in range(count):
        append(world.log(place), b"%d" % number)
    world.flush(world.log(place))


# --- two writers ----------------------------------------------------------------------------------


def test_what_is_written_at_once_is_not_overwritten_by_an_older_picture() -> None:
    world = World()
    flushed(world, 2)
    checkpoints = world.directory.checkpoints
    checkpoints.write_soon(world.directory.logs)
    assert writing(world)
    none: dict[TopicPartition, Log] = {}
    checkpoints.write_now(none)
    world.settle()
    assert not writing(world)
    assert said(world) == {}
    checkpoints.write_soon(world.directory.logs)
    world.settle()
    assert said(world) == {PLACE: 2}, "nobody takes the older one for written"
    checkpoints.write_soon(none)
    world.settle()
    assert said(world) == {}
    world.close()


def test_who_asks_while_files_are_written_is_answered_once_they_say_what_holds_then() -> None:
    world = World()
    flushed(world, 1)
    heard: list[tuple[str, dict[TopicPartition, Offset]]] = []
    directory = world.directory
    directory.checkpoint(lambda done: heard.append((f"first {done}", said(world))))
    log = world.log()
    append(log, b"more")
    log.flushed(log.flush_work())
    directory.checkpoint(lambda done: heard.append((f"second {done}", said(world))))
    assert writing(world)
    world.settle()
    assert heard == [("first True", {PLACE: 2}), ("second True", {PLACE: 2})]
    assert not writing(world)
    world.close()


def test_who_waits_for_checkpoints_hears_of_a_disk_that_fails_and_of_one_that_has() -> None:
    world = World()
    flushed(world, 1)
    heard: list[bool] = []
    world.disk.fail_writes()
    world.directory.checkpoint(heard.append)
    assert heard == []
    world.settle()
    assert heard == [False]
    assert world.directory.fenced
    world.disk.heal()
    world.directory.checkpoint(heard.append)
    assert heard == [False, False], "at once, and nothing is written"
    world.settle()
    assert not world.disk.exists(f"/data/{file_names.RECOVERY_POINTS}") or said(world) == {}
    world.close()


# --- what is forgotten ----------------------------------------------------------------------------


def test_a_new_log_is_not_held_to_what_was_flushed_of_a_deleted_one_of_its_name() -> None:
    world = World()
    flushed(world, 3)
    world.directory.checkpoint()
    world.settle()
    world.directory.delete_log(PLACE)
    flushed(world, 1)
    assert said(world) == {PLACE: 3}
    world.restart(clean=False)
    assert not world.directory.quarantined
    assert values(world.log()) == {0: b"0"}
    assert [name for name in world.disk.list("/data") if name.endswith("-delete")] == []
    world.restart(clean=False)
    assert not world.directory.quarantined
    world.close()


def test_a_log_that_was_empty_may_be_gone_and_is_said_no_more() -> None:
    world = World()
    flushed(world, 0, OTHER)
    flushed(world, 1)
    world.directory.checkpoint()
    world.settle()
    assert said(world) == {PLACE: 1, OTHER: 0}
    world.directory.close(clean=False)
    world.disk.remove_tree(f"/data/{OTHER}")
    world.start()
    assert world.directory.missing == {}
    assert OTHER not in world.directory.checkpoints.listed()
    assert OTHER not in said(world)
    world.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_log_that_is_gone_is_remembered_until_the_duties_begin(wanted: bool) -> None:
    world = World()
    flushed(world, 2, OTHER)
    world.directory.checkpoint()
    world.settle()
    world.directory.close(clean=False)
    world.disk.remove_tree(f"/data/{OTHER}")
    world.disk.remove(f"/data/{NAME}")
    for _ in range(2):
        world.start()
        assert world.directory.missing == {OTHER: 2}
        assert said(world) == {OTHER: 2}
        world.close()
    world.start()
    if wanted:
        refused = world.directory.refused(OTHER, TOPIC_ID)
        assert refused is not None
        assert "flushed offsets up to 1;" in str(refused)
    world.directory.start()
    assert world.directory.missing == {}
    assert (OTHER in world.directory.checkpoints.listed()) is wanted
    world.directory.checkpoint()
    world.settle()
    assert (OTHER in said(world)) is wanted, "what is out of service keeps its word"
    assert (world.directory.refused(OTHER, TOPIC_ID) is not None) is wanted
    world.close()


def test_starts_and_high_watermarks_of_a_lost_log_count_as_recovery_points_do() -> None:
    world = World()
    for name, offset in ((file_names.RECOVERY_POINTS, 0), (file_names.HIGH_WATERMARKS, 1)):
        world.disk.replace(f"/data/{name}", text_files.write_offsets({OTHER: Offset(offset)}))
    world.directory.close(clean=False)
    world.start()
    assert world.directory.missing == {OTHER: 1}
    world.close()


# --- in which order -------------------------------------------------------------------------------


def test_no_file_is_cut_before_the_lower_read_bounds_are_durable() -> None:
    world = World()
    flushed(world, 3)
    world.directory.bounds.publish([world.log()])
    world.directory.bounds.sync()
    before = len(world.disk.ops)
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(world.log(), Offset(1))], done.append, unclean=True)
    world.settle()
    assert done == [None]
    bounds, log = node(world.disk, f"/data/{NAME}"), node(world.disk, f"/data/{PLACE}/{0:020d}.log")
    since = list(enumerate(world.disk.ops))[before:]
    cut = min(at for at, op in since if (op.kind, op.node) == ("truncate", log))
    lowered = [at for at, op in since if (op.kind, op.node) == ("write", bounds) and at < cut]
    assert lowered
    synced = [op for at, op in since if (op.kind, op.node) == ("sync", bounds) and at < cut]
    assert synced
    assert synced[-1].number > lowered[-1]
    world.close()


def test_lower_read_bounds_are_durable_before_the_checkpoints_of_a_truncation_are_begun() -> None:
    world = World()
    flushed(world, 3)
    world.directory.bounds.sync()
    done: list[BaseException | None] = []
    world.directory.truncate_logs([(world.log(), Offset(1))], done.append, unclean=True)
    assert not writing(world)
    while not writing(world):
        assert world.disk.settle(steps=1) or world.clock.turn()
    assert world.directory.published_end(TOPIC_ID, PLACE.partition) == 1
    assert not world.directory.bounds.changed
    world.settle()
    assert done == [None]
    world.close()


def test_read_bounds_are_made_durable_with_the_checkpoints_where_they_have_changed() -> None:
    world = World()
    flushed(world, 1)
    world.directory.bounds.publish([world.log()])
    bounds = node(world.disk, f"/data/{NAME}")

    def syncs() -> int:
        return len([op for op in world.disk.ops if (op.kind, op.node) == ("sync", bounds)])

    before = syncs()
    for wanted in (1, 1):
        world.directory.checkpoint()
        world.settle()
        assert syncs() == before + wanted
    assert not world.directory.bounds.changed
    world.close()


def test_logs_at_rest_are_noted_with_every_twelfth_checkpoint_of_a_directory_at_work() -> None:
    world = World(at_rest=True)
    flushed(world, 1)
    world.clock.advance(10)
    path = f"/data/{FILE_NAME}"
    for number in range(1, AT_REST_EVERY * 2 + 1):
        world.directory.checkpoint()
        assert world.directory.at_rest.writing is (number % AT_REST_EVERY == 0)
        if world.directory.at_rest.writing:
            assert world.directory.writing
        world.settle()
        assert world.disk.exists(path) is (number >= AT_REST_EVERY)
    assert AT_REST_EVERY == 12
    world.close()
    for _ in range(AT_REST_EVERY):
        world.directory.checkpoint()
    assert not world.directory.at_rest.writing, "it is closed"


@pytest.mark.parametrize("name", [file_names.CLEANER_OFFSETS, file_names.RECOVERY_POINTS])
def test_an_empty_checkpoint_of_kafkas_cleaner_is_no_damage(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    flushed(world, 2)
    world.directory.close()
    overwrite(world.disk, f"/data/{name}", b"")
    report = Report()
    verify_path(world.disk, "/data", report)
    world.start()
    CleanerOffsets(world.disk, "/data").read()
    is_cleaners = name == file_names.CLEANER_OFFSETS
    assert report.sound is is_cleaners
    assert not is_cleaners or caplog.messages == []
    assert world.directory.checkpoints.lost(name) is not is_cleaners
    world.close()
