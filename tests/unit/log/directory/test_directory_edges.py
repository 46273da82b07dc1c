"""Small duties of a log directory: its identity, holds, checkpoints and late removals."""

import pytest

from headrace.log import file_names, text_files
from headrace.log.directory.holds import Holds
from headrace.log.directory.state_files.meta_properties import Identity, read_identity
from headrace.log.text_files import read_file, read_offsets
from headrace.model.errors import ConfigError
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.disk import SimDisk
from tests.support.log.log import PLACE, TOPIC_ID, Held, World, append, held_from

META = f"/d/{file_names.META_PROPERTIES}"


def test_a_directory_is_claimed_once_and_by_nobody_else() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    assert read_identity(disk, "/d") is None
    assert Identity.claim(disk, "/d", 3, "c") == Identity(0, 3, "c", None)
    assert read_file(disk, META) == text_files.write_meta_properties(3, "c")
    assert read_identity(disk, "/d") == Identity(0, 3, "c", None)
    assert Identity.claim(disk, "/d", 3, "c") == Identity(0, 3, "c", None)
    with pytest.raises(ConfigError, match="belongs to broker 3"):
        Identity.claim(disk, "/d", 4, "c")
    with pytest.raises(ConfigError, match="cluster 'c', not 'other'"):
        Identity.claim(disk, "/d", 3, "other")


@pytest.mark.parametrize(
    "before",
    [
        b"#\nbroker.id=3\nversion=0\ncluster.id=c\n",
        b"cluster.id=c\nversion=1\nnode.id=3\ndirectory.id=d\n",
    ],
)
def test_an_accepted_directory_of_another_cluster_joins_it(before: bytes) -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.replace(META, before)
    disk.replace(f"/d/{file_names.DIRECTORIES}", b"version=0\n")
    was = read_identity(disk, "/d")
    assert was is not None
    assert Identity.claim(disk, "/d", 3, "e", accepted=True) == was._replace(cluster_id="e")
    assert read_identity(disk, "/d") == was._replace(cluster_id="e")
    assert not disk.exists(f"/d/{file_names.DIRECTORIES}"), "its logs would count as never created"
    with pytest.raises(ConfigError, match="belongs to broker 3"):
        Identity.claim(disk, "/d", 4, "e", accepted=True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"version=0\nbroker.id=5\ncluster.id=c\n", Identity(0, 5, "c", None)),
        (b"version=1\nnode.id=6\ncluster.id=c\ndirectory.id=d\n", Identity(1, 6, "c", "d")),
        (b"version=2\nnode.id=6\ncluster.id=c\n", "unknown version 2"),
        (b"version=-1\nnode.id=6\ncluster.id=c\n", "unknown version -1"),
        (b"version=1\nbroker.id=6\ncluster.id=c\n", "node.id is missing"),
        (b"version=0\nnode.id=6\ncluster.id=c\n", "broker.id is missing"),
        (b"version=0\nbroker.id=6\n", "cluster.id is missing"),
        (b"version=x\nbroker.id=6\ncluster.id=c\n", "invalid literal"),
    ],
)
def test_an_identity_is_read_in_both_versions_and_refused_by_reason(
    content: bytes, found: Identity | str
) -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.replace(META, content)
    if isinstance(found, Identity):
        assert read_identity(disk, "/d") == found
    else:
        with pytest.raises(ConfigError, match=found):
            read_identity(disk, "/d")


def test_the_first_offset_anybody_holds_counts_and_who_is_removed_is_not_asked() -> None:
    holds = Holds()
    holders = {"a": held_from(5), "b": Held((0, 1)), "c": Held()}
    assert holds.first(PLACE) is None
    for holder in holders.values():
        holds.add(PLACE, holder)
    assert holds.first(PLACE) == 0
    holds.remove(PLACE, holders["b"])
    assert holds.first(PLACE) == 5
    holds.remove(PLACE, holders["b"])
    holds.remove(TopicPartition("other", 0), holders["a"])
    assert holds.first(PLACE) == 5
    holds.remove(PLACE, holders["a"])
    assert holds.first(PLACE) is None
    holds.remove(PLACE, holders["c"])
    assert holds._holders == {}


def test_removals_happen_in_the_order_they_fall_due_by_one_timer() -> None:
    world = World()
    world.directory.start()
    done: list[str] = []
    later = world.directory.context.events.remove_later
    waits = sum(timer.callback is not None for _, _, timer in world.clock._waiting)
    later(3000, lambda: done.append("last"))
    later(1000, lambda: done.append("first"))
    later(1000, lambda: done.append("second"))
    assert sum(timer.callback is not None for _, _, timer in world.clock._waiting) == waits + 1
    for wait, wanted in ((0.999, 0), (0.001, 2), (1.999, 2), (0.001, 3)):
        world.clock.advance(wait)
        world.settle()
        assert done == ["first", "second", "last"][:wanted]
    world.close()


def test_checkpoints_say_what_is_flushed_and_a_start_only_where_it_was_moved() -> None:
    world = World()
    log = world.log()
    for number in range(4):
        append(log, b"%d" % number)
    world.flush(log)
    append(log, b"not flushed")
    log.high_watermark = log.end_offset
    other = world.directory.create_log(TopicPartition("u", 2), TOPIC_ID[::-1], world.config)
    log.delete_records(Offset(2))
    world.directory.checkpoint()
    world.settle()

    def said(name: str) -> dict[TopicPartition, Offset]:
        content = read_file(world.disk, f"/data/{name}")
        assert content is not None
        return read_offsets(content, name)

    assert other.end_offset == 0
    end = log.flushed_offset
    assert said(file_names.RECOVERY_POINTS) == {PLACE: end, TopicPartition("u", 2): 0}
    assert said(file_names.LOG_STARTS) == {PLACE: 2}
    assert said(file_names.HIGH_WATERMARKS)[PLACE] <= end
    before = len(world.disk.ops)
    world.directory.checkpoint()
    world.settle()
    assert len(world.disk.ops) == before, "what did not change is not written"
    world.close()
