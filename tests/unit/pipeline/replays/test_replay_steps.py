"""Apply, undo and discard of a replay's files (rules 17 and 18 of pipelines, Delta)."""

import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from headrace.pipeline.replays.replay import (
    OutdatedDiffError,
    ReplayError,
    ReplayState,
)
from headrace.pipeline.replays.steps import (
    apply_replay,
    compare_replay,
    diff_replay,
    discard_replay,
    undo_replay,
)
from headrace.spark.tables.errors import TableError
from tests.support.spark.replays import FIRST, NEW, NOW_MS, OLD, Shop, expected, files_below
from tests.support.spark.tables import read


def test_apply_replaces_the_days_rows_and_no_others(shop: Shop) -> None:
    replay = shop.build([*FIRST, 8])
    assert shop.rows() == expected(OLD)
    assert replay.diff is not None
    assert (replay.diff.added, replay.diff.changed, replay.diff.key) == (
        1,
        4,
        ("partition", "offset"),
    )
    applied = apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(NEW, more={8: NEW})
    assert applied.state is ReplayState.APPLIED
    assert applied.applied_version == DeltaTable(str(shop.live.path)).version()
    assert shop.store.load(replay.id) == applied


def test_live_batches_between_diff_and_apply_stay(shop: Shop) -> None:
    replay = shop.build(FIRST)
    shop.batch(2, [8, 9])
    apply_replay(shop.store, replay.id, NOW_MS)
    shop.batch(3, [10, 11])
    assert shop.rows() == expected(NEW, more=dict.fromkeys((8, 9, 10, 11), OLD))
    undo_replay(shop.store, replay.id)
    assert shop.rows() == expected(OLD, more=dict.fromkeys((8, 9, 10, 11), OLD))


def test_batch_that_is_committed_during_apply_is_met_by_another_try(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = shop.build(FIRST)
    original, batches = DeltaTable.create_write_transaction, iter(range(2, 5))

    def late(table: DeltaTable, *arguments: object, **more: object) -> None:
        number = next(batches, None)
        if number is not None and "app_transactions" in str(vars(more["commit_properties"])):
            monkeypatch.setattr(DeltaTable, "create_write_transaction", original)
            shop.batch(number, [number * 4, number * 4 + 1])
            if number < 4:
                monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
        original(table, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(NEW, more=dict.fromkeys((8, 9, 12, 13, 16, 17), OLD))


def test_compaction_between_diff_and_apply_is_followed(shop: Shop) -> None:
    replay = shop.build(FIRST)
    shop.compact()
    shop.batch(2, [8, 9])
    applied = apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(NEW, more={8: OLD, 9: OLD})
    assert applied.version > replay.version
    assert len(applied.removed) == 1
    assert applied.removed.isdisjoint(replay.removed)
    undo_replay(shop.store, replay.id)
    assert shop.rows() == expected(OLD, more={8: OLD, 9: OLD})


def test_compaction_that_mixes_later_rows_needs_a_new_replay(shop: Shop) -> None:
    replay = shop.build(FIRST)
    shop.batch(2, [8, 9])
    shop.compact()
    with pytest.raises(OutdatedDiffError, match=r"merged rows with those of later.*replay again"):
        apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(OLD, more={8: OLD, 9: OLD})
    assert shop.store.load(replay.id).state is ReplayState.DIFFED


def test_rows_that_others_deleted_need_a_new_replay(shop: Shop) -> None:
    replay = shop.build(FIRST)
    DeltaTable(str(shop.live.path)).delete('"offset" = 2')
    with pytest.raises(OutdatedDiffError, match="replaced or deleted rows"):
        apply_replay(shop.store, replay.id, NOW_MS)
    assert 2 not in shop.rows()


def test_new_comparison_that_differs_is_shown_before_it_is_applied(shop: Shop) -> None:
    replay = shop.build(FIRST)
    assert replay.diff is not None
    shop.store.save(replace(replay, diff=replace(replay.diff, changed=1)))
    shop.compact()
    with pytest.raises(OutdatedDiffError, match="has changed since r1 was compared") as found:
        apply_replay(shop.store, replay.id, NOW_MS)
    assert found.value.diff is not None
    assert found.value.diff.changed == 4
    assert shop.rows() == expected(OLD)
    apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(NEW)


def test_replay_that_was_not_compared_is_compared_first(shop: Shop) -> None:
    replay = shop.build(FIRST)
    shop.store.save(replace(replay, state=ReplayState.BUILT, diff=None))
    with pytest.raises(OutdatedDiffError, match="not compared yet"):
        apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == expected(OLD)
    assert shop.store.load(replay.id) == replay


def test_undo_puts_the_replaced_rows_back_once(shop: Shop) -> None:
    replay = shop.build([0, 2])
    apply_replay(shop.store, replay.id, NOW_MS)
    assert sorted(shop.rows()) == [0, 1, 2, 3, 5, 7]
    for _ in range(2):
        assert undo_replay(shop.store, replay.id).state is ReplayState.UNDONE
        assert shop.rows() == expected(OLD)
    with pytest.raises(ReplayError, match="was undone; replay again"):
        apply_replay(shop.store, replay.id, NOW_MS)


def test_undo_follows_a_compaction_of_the_replays_files(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    shop.compact()
    undo_replay(shop.store, replay.id)
    assert shop.rows() == expected(OLD)


def test_undo_is_refused_if_later_rows_were_merged_or_files_deleted(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    (shop.live.path / min(replay.removed)).unlink()
    with pytest.raises(TableError, match="deleted or damaged, and cannot be added again"):
        undo_replay(shop.store, replay.id)
    shop.batch(2, [8, 9])
    shop.compact()
    with pytest.raises(ReplayError, match=r"r1 cannot be undone: version .* merged rows"):
        undo_replay(shop.store, replay.id)
    assert shop.rows() == expected(NEW, more={8: OLD, 9: OLD})
    assert shop.store.load(replay.id).state is ReplayState.APPLIED


def test_second_apply_changes_nothing(shop: Shop) -> None:
    replay = shop.build(FIRST)
    first = apply_replay(shop.store, replay.id, NOW_MS)
    before = files_below(shop.storage)
    assert apply_replay(shop.store, replay.id, NOW_MS + 1) == first
    assert files_below(shop.storage) == before


def test_later_replay_of_the_same_day_starts_from_the_applied_rows(shop: Shop) -> None:
    first, second = shop.build([0, 2]), shop.build(FIRST)
    assert (first.id, second.id) == ("r1", "r2")
    apply_replay(shop.store, first.id, NOW_MS)
    with pytest.raises(OutdatedDiffError, match="r1 is applied, which replaced rows of day"):
        apply_replay(shop.store, second.id, NOW_MS)
    third = shop.build(FIRST)
    assert third.diff is not None
    assert (third.diff.added, third.diff.changed) == (2, 0)
    apply_replay(shop.store, third.id, NOW_MS)
    assert shop.rows() == expected(NEW)
    with pytest.raises(ReplayError, match="r1 cannot be undone: r3, of day 1970-01-01, is applied"):
        undo_replay(shop.store, first.id)
    assert shop.store.load(first.id).state is ReplayState.APPLIED


def test_discard_leaves_the_table_and_deletes_the_rest(shop: Shop) -> None:
    before = files_below(shop.live.path)
    replay = shop.build(FIRST)
    built = shop.store.built(replay)
    assert built.is_dir()
    for _ in range(2):
        assert discard_replay(shop.store, replay.id).state is ReplayState.DISCARDED
        assert not built.exists()
        assert files_below(shop.live.path) == before
    with pytest.raises(ReplayError, match="was discarded; replay again"):
        apply_replay(shop.store, replay.id, NOW_MS)
    with pytest.raises(ReplayError, match="was discarded"):
        diff_replay(shop.store, shop.store.load(replay.id))


def test_applied_replay_is_not_discarded(shop: Shop) -> None:
    replay = shop.build(FIRST)
    apply_replay(shop.store, replay.id, NOW_MS)
    with pytest.raises(ReplayError, match="r1 is applied: undo it first"):
        discard_replay(shop.store, replay.id)
    assert shop.rows() == expected(NEW)
    undo_replay(shop.store, replay.id)
    discard_replay(shop.store, replay.id)
    assert shop.rows() == expected(OLD)


@pytest.mark.parametrize("state", [ReplayState.BUILT, ReplayState.DIFFED, ReplayState.DISCARDED])
def test_replay_that_is_not_applied_is_not_undone(shop: Shop, state: ReplayState) -> None:
    replay = shop.store.save(replace(shop.build(FIRST), state=state))
    with pytest.raises(ReplayError, match="only an applied replay is undone"):
        undo_replay(shop.store, replay.id)


def test_replay_with_other_columns_is_not_applied(shop: Shop) -> None:
    replay = shop.build(FIRST)
    path = shop.store.built(replay)
    DeltaTable(str(path)).alter.add_columns(Field("more", PrimitiveType("string")))
    assert compare_replay(shop.store, replay.id).diff != replay.diff
    with pytest.raises(ReplayError, match=r"other columns than table \(more\)"):
        apply_replay(shop.store, replay.id, NOW_MS)


def test_whole_table_is_replaced_without_a_range(shop: Shop) -> None:
    replay = shop.build([*range(6)], None)
    shop.batch(2, [8, 9])
    apply_replay(shop.store, replay.id, NOW_MS)
    assert shop.rows() == {**dict.fromkeys(range(6), NEW), 8: OLD, 9: OLD}
    undo_replay(shop.store, replay.id)
    assert shop.rows() == expected(OLD, more={8: OLD, 9: OLD})


def test_discard_after_an_undo_leaves_the_applied_version_readable(shop: Shop) -> None:
    replay = apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    undo_replay(shop.store, replay.id)
    discard_replay(shop.store, replay.id)
    applied = DeltaTable(str(shop.live.path), version=replay.applied_version)
    assert applied.to_pyarrow_table().num_rows == 8


def _pairs(table: pa.Table) -> list[tuple[int, bytes]]:
    columns = (table.column(name).to_pylist() for name in ("offset", "value"))
    return list(zip(*columns, strict=True))


def test_reader_sees_the_old_rows_or_the_new_ones(shop: Shop) -> None:
    seen: list[set[str]] = []
    stop = threading.Event()

    def scan() -> None:
        while not stop.is_set():
            table = read(shop.live.path, "delta")
            values = {at: value.decode() for at, value in _pairs(table)}
            first = {value for at, value in values.items() if at % 2 == 0}
            seen.append(first)
            assert table.num_rows == 8

    reader = threading.Thread(target=scan)
    reader.start()
    try:
        for _ in range(3):
            replay = apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
            undo_replay(shop.store, replay.id)
    finally:
        stop.set()
        reader.join()
    assert {frozenset(each) for each in seen} <= {frozenset({OLD}), frozenset({NEW})}
    assert len(seen) > 3
