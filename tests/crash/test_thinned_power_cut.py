"""The power goes at every operation while segments go from between others, and again at the start.

What must hold after each start: the log is in service, all that somebody wants is there and so is
what was written behind it, nothing is there that was never written, and the log goes on.
"""

from collections.abc import Iterator

import pytest

from headrace.log.recovery.gaps import Gaps
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import PLACE, World, append, values
from tests.support.log.thinning import CONFIG, filled, hold, let_go

WANTED = (0, 6, 7, 20, 21)
DIFFERENT_MIN = 20


class Story:
    """Twice segments go; in between the log grows."""

    def __init__(self) -> None:
        self.world = filled()
        self.begun = len(self.world.disk.ops)
        held = hold(self.world, 0, 6, 7, 10)
        let_go(self.world)
        filled(self.world, first=16, count=8)
        self.flushed = [(len(self.world.disk.ops), 24)]
        held.runs[:] = [(offset, offset) for offset in WANTED]
        assert let_go(self.world) == [0, 6, 20, 22]
        self.world.clock.advance(0.6)
        self.world.settle()
        self.written = {number: b"%03d" % number * 50 for number in range(24)}

    def problems(self, cut: int, left: SimDisk) -> Iterator[str]:
        world = World(left, config=CONFIG)
        if PLACE in world.directory.quarantined:
            yield f"out of service: {world.directory.quarantined[PLACE]}"
            return
        log = world.log()
        found = values(log)
        if not found.items() <= self.written.items():
            yield "something is there that was not written"
        end = next((upto for ops, upto in self.flushed if ops <= cut), 16)
        lost = {offset for offset in (*WANTED, *range(22, 24)) if offset < end} - set(found)
        if lost:
            yield f"lost: {sorted(lost)}"
        append(log, b"goes on")
        world.flush(log)
        if values(log)[log.end_offset - 1] != b"goes on":
            yield "it does not go on"
        world.restart(clean=False)
        if PLACE in world.directory.quarantined:
            yield f"out of service at the next start: {world.directory.quarantined[PLACE]}"
        world.close()


def found_in(story: Story, samples: int) -> tuple[list[str], int]:
    found, states = [], 0
    for cut in range(story.begun, len(story.world.disk.ops) + 1):
        for left in crash_states(story.world.disk, cut, seed=cut, samples=samples):
            states += 1
            found += [f"{problem} (cut at {cut})" for problem in story.problems(cut, left)]
    return found, states


def test_whatever_a_power_cut_leaves_is_taken_for_what_it_is() -> None:
    found, states = found_in(Story(), samples=2)
    assert found == []
    assert states > DIFFERENT_MIN


def test_a_second_power_cut_at_the_start_changes_nothing_of_that() -> None:
    story = Story()
    for cut in range(story.begun, len(story.world.disk.ops) + 1, 5):
        *_, left = crash_states(story.world.disk, cut, seed=cut, samples=1)
        World(left, config=CONFIG).close()
        for again in range(0, len(left.ops) + 1, 6):
            for twice in crash_states(left, again, seed=again, samples=0):
                assert list(story.problems(cut, twice)) == [], (cut, again)


def test_a_gap_that_is_not_noted_before_files_go_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaps, "write", lambda self, content: None)
    assert found_in(Story(), samples=0)[0]
