"""Delays and transactions in drawn histories: kills, power cuts, clock jumps, failing topics.

Acknowledged messages are delivered, never before their time by the wall clock, and once, or once
more for each end of the process between a delivery and its note. Messages that were recalled,
rolled back or given up are never delivered.
"""

from collections import Counter

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.model.errors import ApiError, ErrorCode
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.examples import examples
from tests.support.held.lives import ASKS_MAX, DelayRoom, HalfRoom, recall
from tests.support.held.room import TARGET

ENDS = ("kill", "cut")
"""Ends of a process: a kill leaves all that was written, a power cut what was flushed."""
ENDS_MAX = 4


def left_by(room: DelayRoom | HalfRoom, end: str, seed: int) -> SimDisk:
    """Return the disk that an end of the process leaves."""
    disk = room.world.disk
    if end == "kill":
        return disk.left_by_a_kill()
    left = list(crash_states(disk, len(disk.ops), seed, samples=2))
    return left[seed % len(left)]


DELAY_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-100, 150_000)),
        st.tuples(st.just("pass"), st.integers(1, 70_000)),
        st.tuples(st.just("jump"), st.integers(-90_000, 90_000)),
        st.tuples(st.just("recall"), st.integers(0, 30)),
        st.tuples(st.just("refuse"), st.integers(0, 1)),
        st.tuples(st.just("hold"), st.integers(0, 1)),
        st.tuples(st.sampled_from(ENDS), st.integers(0, 1000)),
    ),
    max_size=25,
)


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(DELAY_STEPS)
def test_delayed_messages_are_delivered_and_none_is_early(
    steps: list[tuple[str, int]],
) -> None:
    room = DelayRoom()
    due: dict[str, int] = {}
    recalled: set[str] = set()
    early: list[str] = []
    ends = number = 0

    def look(room: DelayRoom) -> None:
        room.targets.delivers = lambda body: (
            early.append(body) if room.now_ms < due.get(body, room.now_ms) else None
        )

    look(room)
    for step, value in steps:
        if step == "add":
            number += 1
            due[str(number)] = room.now_ms + value
            room.add(str(number), after_ms=value)
            assert not isinstance(room.answered[-1], ApiError)
        elif step == "pass":
            room.pass_ms(value, max(value // 10, 1))
        elif step == "jump":
            room.jump_ms(value)
        elif step == "recall" and str(value) in due:
            if recall(room, str(value), due[str(value)]):
                recalled.add(str(value))
        elif step == "refuse":
            room.targets.refused = {TARGET: ErrorCode.NOT_ENOUGH_REPLICAS} if value else {}
        elif step == "hold":
            room.targets.hold(bool(value))
        elif step in ENDS and ends < ENDS_MAX:
            ends += 1
            room.delays.close()
            room.targets.forget_waiting()
            room = DelayRoom(room, room.targets, left_by(room, step, value))
            look(room)
    room.targets.refused = {}
    room.targets.hold(False)
    wait_ms = max([ms - room.now_ms for ms in due.values()], default=0)
    room.pass_ms(max(wait_ms, 0) + 3000, 1000)
    assert early == []
    counted = Counter(room.stored)
    for body in due:
        if body in recalled:
            assert counted[body] == 0, body
        else:
            assert 1 <= counted[body] <= 1 + ends, (body, counted)
    assert len(room.delays) == 0


HALF_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(0, 12)),
        st.tuples(st.just("roll back"), st.integers(0, 12)),
        st.tuples(st.just("pass"), st.integers(1, 3000)),
        st.tuples(st.just("away"), st.integers(0, 1)),
        st.tuples(st.just("refuse"), st.integers(0, 1)),
        st.tuples(st.sampled_from(ENDS), st.integers(0, 1000)),
    ),
    max_size=25,
)


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(HALF_STEPS)
def test_messages_of_transactions_end_as_they_were_decided(steps: list[tuple[str, int]]) -> None:
    room = HalfRoom()
    offsets: list[tuple[str, int]] = []
    committed: set[str] = set()
    rolled_back: set[str] = set()
    asked: Counter[str] = Counter()
    ends = 0

    def decide(place: int, *, commits: bool) -> None:
        if place >= len(offsets):
            return
        body, offset = offsets[place]
        try:
            decided = room.decide(offset, commits=commits)
        except ApiError:
            assert room.targets.refused
            return
        over = body in committed | rolled_back or body in room.given_up.stored
        assert decided is not over, "decided once"
        if decided:
            (committed if commits else rolled_back).add(body)

    for step, value in steps:
        if step == "add":
            body = str(len(offsets))
            (offset,) = room.add(body)
            offsets.append((body, offset))
        elif step == "commit":
            decide(value, commits=True)
        elif step == "roll back":
            decide(value, commits=False)
        elif step == "pass":
            room.pass_ms(value, max(value // 10, 1))
        elif step == "away":
            room.producer_lives = not value
        elif step == "refuse":
            room.targets.refused = {TARGET: ErrorCode.NOT_ENOUGH_REPLICAS} if value else {}
        elif step in ENDS and ends < ENDS_MAX:
            ends += 1
            room.half.close()
            asked.update(body for body, _ in room.asked)
            room = HalfRoom(room, left_by(room, step, value))
    room.targets.refused = {}
    for place, (body, _) in enumerate(offsets):
        if body not in committed | rolled_back and body not in room.given_up.stored:
            decide(place, commits=True)
    asked.update(body for body, _ in room.asked)
    counted = Counter(room.targets.stored)
    for body, _ in offsets:
        assert (counted[body] == 1) is (body in committed), body
        assert counted[body] <= 1
        given_up = room.given_up.stored.count(body)
        assert given_up <= int(body not in committed | rolled_back)
        assert asked[body] <= ASKS_MAX + ends, "a count that a power cut takes asks once more"
        if given_up:
            assert asked[body] >= ASKS_MAX
    assert len(room.half) == 0
