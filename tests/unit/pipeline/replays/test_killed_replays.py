"""Replays that are killed at every line of a step, and completed by whichever starts next."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from headrace.pipeline.replays.replay import ReplayState
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.steps import apply_replay, discard_replay, resume, undo_replay
from tests.support.spark.replays import NEW, NOW_MS, OLD, Shop, killed_at_each_line

LIVE = {8: OLD, 9: OLD}
DAY = dict.fromkeys(range(8), OLD)
APPLIED = {at: NEW if at % 2 == 0 else OLD for at in range(8)}


def apply(store: ReplayStore) -> object:
    return apply_replay(store, "r1", NOW_MS)


def undo(store: ReplayStore) -> object:
    return undo_replay(store, "r1")


def discard(store: ReplayStore) -> object:
    return discard_replay(store, "r1")


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop with a replay of the first day."""
    shop.build([0, 2, 4, 6])
    return shop


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("step", "state", "rows"),
    [
        (apply, ReplayState.APPLIED, APPLIED),
        (undo, ReplayState.UNDONE, DAY),
        (discard, ReplayState.DISCARDED, DAY),
    ],
)
def test_step_killed_at_any_line_is_done_once_by_the_next(
    shop: Shop,
    tmp_path: Path,
    step: Callable[[ReplayStore], object],
    state: ReplayState,
    rows: dict[int, str],
    compacted: bool,
) -> None:
    if step is undo:
        apply(shop.store)
    if compacted:
        shop.compact()
    killed = killed_at_each_line(shop, tmp_path, partial(step, shop.store))
    for at, live, resumed in product(killed, (True, False), (True, False)):
        assert at.rows() in (DAY, APPLIED)
        other = at.copy(at.storage.with_name(f"{at.storage.name}-{live}-{resumed}"))
        if live:  # A live batch comes first.
            other.batch(2, [8, 9])
        if resumed:
            resume(other.store, NOW_MS)
        step(other.store)
        assert other.store.load("r1").state is state
        assert other.rows() == rows | (LIVE if live else {})
        assert other.store.built(other.store.load("r1")).exists() == (step is not discard)
    assert len(killed) >= 5


def test_kill_while_a_replay_begins_leaves_the_table(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "storage")
    shop.storage.mkdir()
    shop.batch(0, [0, 1])
    killed = killed_at_each_line(shop, tmp_path, shop.begin)
    for other in killed:
        replay = other.build([0])
        apply_replay(other.store, replay.id, NOW_MS)
        assert other.rows() == {0: NEW, 1: OLD}
    assert len(killed) >= 5
