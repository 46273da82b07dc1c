"""Names on the simulated disk, and what a power cut leaves of them and of what is in the files."""

import errno
from collections.abc import Callable

import pytest

from headrace.testing.disk import Op, SimDisk, SimFile
from headrace.testing.disk_crash import SECTOR_BYTES, crash_states


def put(disk: SimDisk, path: str, content: bytes = b"", *, sync: bool = False) -> SimFile:
    """A file that holds `content`, durable or not; still open."""
    file = disk.open(path, create=True)
    assert isinstance(file, SimFile)
    if content:
        file.write_at(0, (content,))
    if sync:
        file.sync()
    return file


def held(disk: SimDisk, path: str) -> bytes | None:
    """The content of a file; None where there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path, writable=False)
    try:
        return bytes(file.read(0, file.size()))
    finally:
        file.close()


def number(call: Callable[[], object], kind: type[OSError]) -> tuple[int | None, str | None]:
    """Error number and file name of the error that `call` raises."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value.errno, caught.value.filename


# --- names ----------------------------------------------------------------------------------------


def test_what_is_not_there_or_of_the_other_kind_is_refused_by_its_name() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    put(disk, "/d/f", b"x")
    gone = errno.ENOENT, "/d/g"
    missing: list[Callable[[], object]] = [
        lambda: disk.open("/d/g"),
        lambda: disk.list("/d/g"),
        lambda: disk.rename("/d/g", "/d/h"),
        lambda: disk.remove("/d/g"),
        lambda: disk.sync_directory("/d/g"),
        lambda: disk.sync_all("/d/g"),
        lambda: disk.free_bytes("/d/g"),
        lambda: disk.total_bytes("/d/g"),
        lambda: disk.flip("/d/g", 0),
        lambda: disk.open("/d/g/inside", create=True),
    ]
    assert [number(call, FileNotFoundError) for call in missing] == [gone] * len(missing)
    file = errno.ENOTDIR, "/d/f"
    assert number(lambda: disk.list("/d/f"), NotADirectoryError) == file
    assert number(lambda: disk.open("/d/f/in", create=True), NotADirectoryError) == file
    assert number(lambda: disk.open("/d"), IsADirectoryError) == (errno.EISDIR, "/d")
    assert disk.open_files == 1


def test_names_are_listed_in_order_and_told_from_files() -> None:
    disk = SimDisk()
    disk.make_directory("/d/b/c")
    disk.make_directory("/d/b")
    put(disk, "/d/a", b"12345")
    assert disk.list("/") == ["d"]
    assert disk.list("/d") == ["a", "b"]
    assert [disk.is_directory(path) for path in ("/", "/d/b", "/d/a", "/x")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [disk.exists(path) for path in ("/d/a", "/d/b/c", "/d/c", "/d/a/b")] == [
        True, True, False, False,
    ]  # fmt: skip
    found = disk.stat("/d/a")
    assert found is not None
    assert found.size == 5
    assert disk.stat("/d/x") is None
    assert disk.real_path("d/a/") == "/d/a"
    assert disk.absolute("/d/a") == "/d/a"
    assert (disk.free_bytes("/d"), disk.total_bytes("/d")) == (1 << 40, 1 << 41)
    disk.remove_tree("/d")
    assert disk.list("/") == []


def test_a_file_takes_the_place_of_another_in_any_directory() -> None:
    disk = SimDisk()
    disk.make_directory("/a")
    disk.make_directory("/b")
    put(disk, "/a/new", b"new")
    put(disk, "/b/old", b"old")
    disk.rename("/a/new", "/b/old")
    assert (disk.list("/a"), disk.list("/b"), held(disk, "/b/old")) == ([], ["old"], b"new")
    disk.rename("/b/old", "/b/newer")
    assert disk.list("/b") == ["newer"]


def test_a_change_is_seen_at_the_file_or_directory_changed_and_at_no_other() -> None:
    disk = SimDisk()
    disk.make_directory("/a")
    disk.make_directory("/b")
    file = put(disk, "/a/f", b"x")

    def changed() -> list[int]:
        found = [disk.stat(path) for path in ("/", "/a", "/b", "/a/f", "/b/f")]
        return [stat.changed for stat in found if stat is not None]

    def those(act: Callable[[], object]) -> list[bool]:
        before = changed()
        act()
        return [old != new for old, new in zip(before, changed(), strict=True)]

    assert those(file.sync) == [False] * 4
    assert those(lambda: disk.sync_directory("/a")) == [False] * 4
    assert those(lambda: file.write_at(0, (b"y",))) == [False, False, False, True]
    assert those(lambda: file.truncate(0)) == [False, False, False, True]
    assert those(lambda: disk.rename("/a/f", "/b/f")) == [False, True, True, False]
    assert those(lambda: disk.make_directory("/a/c")) == [False, True, False, False]


def test_a_lock_is_held_by_one_until_it_lets_go() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    unlock = disk.lock("/d/.lock")
    assert disk.exists("/d/.lock")
    assert number(lambda: disk.lock("/d/.lock"), BlockingIOError) == (errno.EAGAIN, "/d/.lock")
    disk.lock("/d/other")
    links = len(disk.ops)
    unlock()
    unlock()
    disk.lock("/d/.lock")
    assert len(disk.ops) == links, "the file was there"


def test_each_machine_has_been_started_another_time_unless_it_is_said() -> None:
    first, second = SimDisk(), SimDisk()
    assert first.boot_id() != second.boot_id()
    assert SimDisk(boot="here").boot_id() == "here"
    assert first.left_by_a_kill().boot_id() == first.boot_id()


def test_a_kill_leaves_all_that_was_done_to_a_process_that_goes_its_own_way() -> None:
    disk = SimDisk()
    file = put(disk, "/f", b"saved", sync=True)
    file.write_at(5, (b" not",))
    disk.fail_syncs()
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    left = disk.left_by_a_kill()
    file.write_at(0, (b"S",))
    assert held(left, "/f") == b"saved not"
    left.open("/f").forget(0, 9)
    assert held(left, "/f") == b"saved"
    assert held(disk, "/f") == b"Saved not"
    assert len(left.ops) == len(disk.ops) - 1


# --- power cuts -----------------------------------------------------------------------------------


def worst_and_best(disk: SimDisk, path: str) -> tuple[bytes | None, bytes | None]:
    """What a cut leaves at least and at most, now."""
    states = crash_states(disk, len(disk.ops), 0)
    return held(next(states), path), held(next(states), path)


def test_only_what_was_synced_is_sure_to_survive_both_of_the_file_and_of_its_name() -> None:
    disk = SimDisk()
    file = put(disk, "/f", b"kept", sync=True)
    assert worst_and_best(disk, "/f") == (None, b"kept")
    disk.sync_directory("/")
    assert worst_and_best(disk, "/f") == (b"kept", b"kept")
    file.write_at(4, (b" more",))
    assert worst_and_best(disk, "/f") == (b"kept", b"kept more")
    file.truncate(2)
    assert worst_and_best(disk, "/f")[1] == b"ke"
    file.sync()
    assert worst_and_best(disk, "/f") == (b"ke", b"ke")
    disk.remove("/f")
    assert worst_and_best(disk, "/f") == (b"ke", None)
    disk.sync_directories(["/gone", "/"])
    assert worst_and_best(disk, "/f") == (None, None)


def test_a_replaced_file_is_durable_at_once_and_leaves_nothing_beside_it() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    disk.sync_directory("/")
    disk.replace("/d/f", b"a long first one")
    disk.replace("/d/f", b"second")
    assert disk.list("/d") == ["f"]
    assert disk.open_files == 0
    assert worst_and_best(disk, "/d/f") == (b"second", b"second")
    put(disk, "/d/f.tmp", b"left over from before, and longer")
    disk.replace("/d/f", b"third")
    assert held(disk, "/d/f") == b"third"


def test_a_sync_of_all_covers_files_and_names() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    put(disk, "/d/f", b"x")
    disk.sync_all("/")
    assert worst_and_best(disk, "/d/f") == (b"x", b"x")


def test_a_rename_into_another_directory_is_durable_with_the_one_it_came_from() -> None:
    disk = SimDisk()
    disk.make_directory("/a")
    disk.make_directory("/b")
    put(disk, "/a/f", b"x", sync=True)
    disk.sync_all("/")
    disk.rename("/a/f", "/b/g")
    assert worst_and_best(disk, "/a/f") == (b"x", None)
    assert worst_and_best(disk, "/b/g") == (None, b"x")
    disk.sync_directory("/a")
    assert worst_and_best(disk, "/b/g") == (b"x", b"x")


def test_what_a_failed_sync_lost_is_gone_whatever_else_a_cut_leaves() -> None:
    disk = SimDisk()
    file = put(disk, "/f", b"saved", sync=True)
    disk.sync_directory("/")
    file.write_at(5, (b" lost",))
    disk.fail_syncs()
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert worst_and_best(disk, "/f") == (b"saved", b"saved")


def test_of_what_was_not_synced_whole_sectors_are_there_or_not() -> None:
    disk = SimDisk()
    file = put(disk, "/f", sync=True)
    disk.sync_directory("/")
    pieces = [bytes([65 + at]) * SECTOR_BYTES for at in range(8)]
    file.write_at(0, pieces)
    lengths, holes = set(), 0
    for left in list(crash_states(disk, len(disk.ops), 1, samples=40))[2:]:
        found = held(left, "/f")
        assert found is not None
        lengths.add(len(found))
        for at, piece in enumerate(pieces):
            sector = found[at * SECTOR_BYTES : (at + 1) * SECTOR_BYTES]
            assert sector in (piece[: len(sector)], bytes(len(sector)))
            holes += bool(sector) and not any(sector)
    assert len(lengths) > 10, "any length between the old and the new one"
    assert 20 < holes < 200
    assert SECTOR_BYTES == 512


def test_names_of_a_directory_come_in_the_order_they_were_made_and_directories_differ() -> None:
    disk = SimDisk()
    for directory in ("/a", "/b"):
        disk.make_directory(directory)
    disk.sync_all("/")
    for at in range(6):
        put(disk, f"/a/{at}")
        put(disk, f"/b/{at}")
    found = set()
    states = list(crash_states(disk, len(disk.ops), 3, samples=60))
    for left in states:
        names = [left.list(directory) for directory in ("/a", "/b")]
        assert all(of_one == [str(at) for at in range(len(of_one))] for of_one in names)
        found.add(tuple(map(len, names)))
    assert {(0, 0), (6, 6)} <= found
    assert len({first for first, _ in found}) > 3
    assert any(first != second for first, second in found)
    assert len(states) == 62


def test_a_cut_knows_nothing_of_later_operations_and_is_the_same_each_time() -> None:
    disk = SimDisk()
    put(disk, "/f", b"first", sync=True)
    disk.sync_directory("/")
    cut = len(disk.ops)
    put(disk, "/g", b"x" * 5000, sync=True)
    disk.sync_directory("/")
    assert [left.list("/") for left in crash_states(disk, cut, 0)] == [["f"]] * 6
    disk.open("/f").write_at(0, (bytes(range(1, 251)) * 100,))

    def drawn(seed: int) -> list[bytes | None]:
        return [held(left, "/f") for left in crash_states(disk, len(disk.ops), seed)]

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def test_a_disk_that_was_cut_is_durable_as_it_is() -> None:
    disk = SimDisk()
    put(disk, "/f", b"kept", sync=True)
    disk.sync_directory("/")
    left = next(crash_states(disk, len(disk.ops), 0))
    assert left.ops == []
    assert worst_and_best(left, "/f") == (b"kept", b"kept")
    file = left.open("/f")
    file.write_at(0, (b"K",))
    assert worst_and_best(left, "/f")[0] == b"kept"
    assert held(disk, "/f") == b"kept"
    file.sync()
    assert left.ops[-1] == Op("sync", left.ops[0].node, 1)
    assert worst_and_best(left, "/f") == (b"Kept", b"Kept")
