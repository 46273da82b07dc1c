"""Replays that are killed at every line of a step, and completed by whichever starts next."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.pipeline.replays.replay import ReplayState
from headrace.pipeline.replays.replay_store import ReplayStore
from headrace.pipeline.replays.steps import apply_replay, discard_replay, resume, undo_replay
from tests.support.spark.replays import NEW, NOW_MS, OLD, Shop, killed_at

STRIDES = [29, pytest.param(1, marks=pytest.mark.slow)]
"""Numbers of lines from one kill to the next; primes, so that loops are met at different places."""
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


@pytest.mark.parametrize("stride", STRIDES)
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
    stride: int,
) -> None:
    if step is undo:
        apply(shop.store)
    if compacted:
        shop.compact()
    killed, line = True, 1
    while killed:
        other = shop.copy(tmp_path / f"killed-{line}")
        killed = killed_at(line, partial(step, other.store))
        assert other.rows() in (DAY, APPLIED), line
        if line % 2:  # a live batch comes first
            other.batch(2, [8, 9])
        if line % 3:
            resume(other.store, NOW_MS)
        step(other.store)
        assert other.store.load("r1").state is state, line
        assert other.rows() == rows | (LIVE if line % 2 else {}), line
        assert other.store.built(other.store.load("r1")).exists() == (step is not discard)
        line += stride
    assert line > 30


@pytest.mark.parametrize("stride", STRIDES)
def test_kill_while_a_replay_begins_leaves_the_table(tmp_path: Path, stride: int) -> None:
    shop = Shop(tmp_path / "storage")
    shop.storage.mkdir()
    shop.batch(0, [0, 1])
    killed, line = True, 1
    while killed:
        other = shop.copy(tmp_path / f"killed-{line}")
        killed = killed_at(line, other.begin)
        replay = other.build([0])
        apply_replay(other.store, replay.id, NOW_MS)
        assert other.rows() == {0: NEW, 1: OLD}
        line += stride
    assert line > 30
