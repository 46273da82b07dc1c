"""Records and leases of replays, and steps that were interrupted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipeline.replays.replay import (
    Replay,
    ReplayState,
    UnknownReplayError,
)
from headrace.pipeline.replays.steps import (
    apply_replay,
    diff_replay,
    discard_replay,
    resume,
    undo_replay,
)
from headrace.spark.tables.delta_parts.lease import LEASE_MS, LeasedPartitions
from headrace.spark.tables.errors import TableError
from tests.support.spark.replays import FIRST, NEW, NOW_MS, OLD, Shop, expected, files_below
from tests.support.spark.tables import parquet_files


def test_commit_that_the_record_does_not_know_is_found_in_the_table(shop: Shop) -> None:
    replay = shop.build(FIRST)
    applied = apply_replay(shop.store, replay.id, NOW_MS)
    shop.store.save(replace(replay, state=ReplayState.APPLYING))
    shop.batch(2, [8, 9])
    again = apply_replay(shop.store, replay.id, NOW_MS)
    assert again == applied, "with the version of the commit, not of the batch since"
    assert DeltaTable(str(shop.live.path)).version() == (applied.applied_version or 0) + 1
    assert shop.rows() == expected(NEW, more={8: OLD, 9: OLD})


def test_undo_that_the_record_does_not_know_is_found_in_the_table(shop: Shop) -> None:
    replay = apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    undo_replay(shop.store, replay.id)
    version = DeltaTable(str(shop.live.path)).version()
    shop.store.save(replace(replay, state=ReplayState.UNDOING))
    assert undo_replay(shop.store, replay.id).state is ReplayState.UNDONE
    assert DeltaTable(str(shop.live.path)).version() == version


def test_failed_commit_leaves_a_replay_to_apply_or_discard(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = shop.build(FIRST)
    before = parquet_files(shop.live.path)

    def fail(*_: object, **__: object) -> None:
        raise TableError("the log cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", fail)
        with pytest.raises(TableError, match="the log cannot be written"):
            apply_replay(shop.store, replay.id, NOW_MS)
    assert parquet_files(shop.live.path) > before, "the links are there"
    assert shop.store.load(replay.id).state is ReplayState.DIFFED
    assert shop.rows() == expected(OLD)
    discard_replay(shop.store, replay.id)
    assert parquet_files(shop.live.path) == before


def test_file_of_another_at_a_replays_path_is_not_overwritten(shop: Shop) -> None:
    replay = shop.build(FIRST)
    (path, *_) = shop.store.built(replay).rglob("*.parquet")
    other = shop.live.path / path.relative_to(shop.store.built(replay))
    other.write_bytes(b"other")
    with pytest.raises(TableError, match=r"is another file than .*: move it away"):
        apply_replay(shop.store, replay.id, NOW_MS)
    assert other.read_bytes() == b"other"
    assert shop.rows() == expected(OLD)
    assert shop.store.load(replay.id).state is ReplayState.DIFFED
    other.unlink()
    apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(NEW)


def test_applied_files_are_on_no_list_of_a_dead_attempt(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    assert list((shop.live.path / "_headrace" / "attempts").iterdir()) == []


def test_unknown_replay_and_unknown_flow_are_errors(shop: Shop) -> None:
    shop.build(FIRST)
    with pytest.raises(UnknownReplayError, match="there is no replay r9; there are: r1"):
        shop.store.load("r9")
    with pytest.raises(UnknownReplayError, match="there is no replay r1 of large; there are: none"):
        shop.store.load("r1", "large")
    assert shop.store.load("r1", "orders").id == "r1"


def test_replays_are_listed_by_number(shop: Shop) -> None:
    for _ in range(10):
        shop.begin()
    assert [replay.id for replay in shop.store.all()] == [f"r{n}" for n in range(1, 11)]


def test_ids_are_not_used_again(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    for file in (shop.storage / "_pipeline" / "replays").glob("*.json"):
        file.unlink()  # state may be lost, but not the table's
    assert shop.begin().id == "r2"


def test_transaction_of_a_lost_record_does_not_hide_a_new_replay(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    undo_replay(shop.store, replay.id)
    discard_replay(shop.store, replay.id)
    (shop.storage / "_pipeline" / "replays" / "r1.json").unlink()
    again = shop.build(FIRST)
    assert again.id == "r1"
    apply_replay(shop.store, again.id, NOW_MS)
    assert shop.rows() == expected(NEW)


def test_compaction_skips_leased_partitions_until_the_lease_ends(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    shop = Shop(tmp_path / "storage", mergeEvery=1)
    shop.batch(0, [0, 1])
    shop.begin()
    shop.batch(1, [2, 3])
    leased = LeasedPartitions(shop.live.path, NOW_MS)
    assert leased.holds(["timestamp_day"], ("1970-01-01",))
    assert not leased.holds(["timestamp_day"], ("1970-01-02",))
    assert not leased.holds(["timestamp_day"], (None,))
    assert not LeasedPartitions(shop.live.path, NOW_MS + LEASE_MS).holds(
        ["timestamp_day"], ("1970-01-01",)
    )


def test_lease_lasts_from_apply_as_long_as_an_undo_is_possible(shop: Shop) -> None:
    def leased(now_ms: int) -> bool:
        partitions = LeasedPartitions(shop.live.path, now_ms)
        return partitions.holds(["timestamp_day"], ("1970-01-01",))

    replay = shop.build(FIRST)
    later_ms = NOW_MS + LEASE_MS // 2
    apply_replay(shop.store, replay.id, later_ms)
    assert leased(later_ms + LEASE_MS - 1)
    assert not leased(later_ms + LEASE_MS)
    undo_replay(shop.store, replay.id)
    assert not leased(later_ms)


@pytest.mark.parametrize("end", [apply_replay, discard_replay])
def test_lease_of_a_whole_table_ends_with_apply_or_discard(shop: Shop, end: Any) -> None:
    replay = shop.build([*range(6)], None)
    assert LeasedPartitions(shop.live.path, NOW_MS).holds([], ())
    end(shop.store, replay.id, *([NOW_MS] if end is apply_replay else []))
    assert not LeasedPartitions(shop.live.path, NOW_MS).holds([], ())


def test_merging_is_kept_off_a_replays_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "storage").mkdir()
    shop = Shop(tmp_path / "storage", mergeEvery=1)
    shop.batch(0, [0, 1])
    monkeypatch.setattr("headrace.spark.tables.delta.time.time", lambda: NOW_MS / 1000)
    replay = shop.begin()
    shop.batch(1, [2, 3])
    days = [Path(uri).parent.name for uri in DeltaTable(str(shop.live.path)).file_uris()]
    assert sorted(days) == ["timestamp_day=1970-01-01"] * 2 + ["timestamp_day=1970-01-02"]
    discard_replay(shop.store, replay.id)
    shop.batch(2, [4, 5])
    assert len(DeltaTable(str(shop.live.path)).file_uris()) == 2


def test_diff_changes_nothing(shop: Shop) -> None:
    replay = shop.build(FIRST)
    before = files_below(shop.storage)
    assert diff_replay(shop.store, replay) == replay.diff
    assert files_below(shop.storage) == before


def test_diff_of_an_applied_replay_is_still_there(shop: Shop) -> None:
    replay = apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    assert diff_replay(shop.store, replay) == replay.diff


def test_resume_has_nothing_to_do_at_rest(shop: Shop) -> None:
    apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    shop.build(FIRST)
    before = files_below(shop.storage)
    assert resume(shop.store, NOW_MS) == []
    assert files_below(shop.storage) == before


def test_resume_of_a_replay_that_cannot_be_applied_is_a_warning(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    replay: Replay = shop.store.save(replace(shop.build(FIRST), state=ReplayState.APPLYING))
    DeltaTable(str(shop.live.path)).delete('"offset" = 2')
    (found,) = resume(shop.store, NOW_MS)
    assert (found.id, found.state) == (replay.id, ReplayState.DIFFED)
    assert "replay r1: cannot complete its step: " in caplog.text
