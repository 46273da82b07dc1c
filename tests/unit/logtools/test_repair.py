"""`log repair` mends what `verify` finds, deletes nothing unasked, and says what is lost."""

from collections.abc import Callable

import pytest

from headrace.log import file_names
from headrace.logtools.repair import Mending, repair_directory
from headrace.logtools.verify import Kind
from headrace.testing.disk import SimDisk
from tests.support.log.log import CONFIG, World, content, values
from tests.unit.logtools.test_verify import (
    FAULTS,
    PATH,
    flip,
    flip_batch,
    flushed_yet_missing,
    lost_segment,
    segments,
    verified,
    written,
)

MENDABLE = [
    (plant, kind)
    for plant, kind in FAULTS
    if plant not in (lost_segment, flushed_yet_missing) and kind is not Kind.IDENTITY
]
ALL = values(World(written(), config=CONFIG).log())


def snapshot_of(disk: SimDisk) -> dict[str, bytes]:
    """Every file below the directory."""
    return {
        f"{place}/{name}": content(disk, f"{place}/{name}")
        for place in ("/data", PATH)
        for name in disk.list(place)
        if not disk.is_directory(f"{place}/{name}")
    }


def repaired(disk: SimDisk, *, truncate: bool = False, dry_run: bool = False) -> Mending:
    mending = Mending(disk, truncate, dry_run, say=lambda _: None)
    repair_directory(mending, "/data")
    return mending


def served(disk: SimDisk) -> dict[int, bytes | None]:
    """What a broker of ours serves of it."""
    world = World(disk, config=CONFIG)
    assert not world.directory.quarantined
    found = values(world.log())
    world.close()
    return found


@pytest.mark.parametrize(("plant", "kind"), MENDABLE, ids=[plant.__name__ for plant, _ in MENDABLE])
def test_what_was_mended_is_sound_and_every_sound_record_is_still_there(
    plant: Callable[[SimDisk], str], kind: Kind
) -> None:
    disk = written()
    plant(disk)
    mending = repaired(disk)
    assert mending.steps
    assert verified(disk).sound
    found = served(disk)
    lost = ALL.keys() - found.keys()
    assert found == {offset: value for offset, value in ALL.items() if offset not in lost}
    assert len(lost) == (1 if kind is Kind.BATCH else 0)


@pytest.mark.parametrize(("plant", "kind"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_dry_run_changes_nothing(plant: Callable[[SimDisk], str], kind: Kind) -> None:
    disk = written()
    plant(disk)
    before = snapshot_of(disk)
    mending = repaired(disk, dry_run=True)
    assert snapshot_of(disk) == before
    assert mending.steps or mending.unmended, kind


def test_a_sound_directory_is_left_as_it_is() -> None:
    disk = written()
    before = snapshot_of(disk)
    assert repaired(disk).steps == []
    assert snapshot_of(disk) == before


def test_a_damaged_segment_is_moved_aside_whole() -> None:
    disk = written()
    path = flip_batch(disk)
    before = content(disk, path)
    mending = repaired(disk)
    assert content(disk, f"{path}.damaged") == before
    assert "lost are offsets" in mending.steps[0]


def test_two_bad_places_in_one_segment_cost_only_their_own_batches() -> None:
    disk = written()
    path = segments(disk, ".log")[1]
    size = len(content(disk, path))
    flip(disk, path, 90)
    flip(disk, path, size - 10)
    repaired(disk)
    assert len(ALL.keys() - served(disk).keys()) == 2


def test_truncate_ends_the_log_before_the_damage_and_says_what_goes() -> None:
    disk = written()
    path = flip_batch(disk)
    mending = repaired(disk, truncate=True)
    found = served(disk)
    assert found == {offset: value for offset, value in ALL.items() if offset <= max(found)}
    assert 0 < len(found) < len(ALL)
    end = max(found) + 1
    assert f"the log ends at offset {end} instead of 86" in mending.steps[0]
    assert not disk.exists(f"{path}.damaged")
    assert verified(disk).sound


def test_truncate_brings_the_checkpoints_down_so_that_the_next_start_serves() -> None:
    disk = written()
    disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    flip_batch(disk)
    repaired(disk, truncate=True)
    assert served(disk)


def test_missing_records_are_said_to_be_lost_and_the_partition_serves_the_rest() -> None:
    disk = written()
    lost_segment(disk)
    mending = repaired(disk)
    assert len(mending.unmended) == 1
    assert "nobody has them any more" in mending.unmended[0]
    assert 0 < len(served(disk)) < len(ALL)


def test_a_log_shorter_than_its_recovery_point_goes_back_into_service() -> None:
    disk = written()
    disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    flushed_yet_missing(disk)
    repaired(disk)
    assert served(disk) == ALL
