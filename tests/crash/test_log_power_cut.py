"""The power goes at every operation the log hands to its disk; whatever is left must recover.

What must hold after each recovery is in `tests.support.log.crash`; the counts are printed at the
end.
Whether this suite finds what it is made for, `test_planted_faults` asks.
"""

from collections.abc import Callable

import pytest

from headrace.log.text_files import NO_TOPIC_ID
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.crash.stories import STORIES, name_of, retention_by_size, rolls, truncation
from tests.support.log.crash import (
    COUNTS,
    NEVER,
    Count,
    History,
    Story,
    Told,
    assert_nothing_found,
    enumerate_cuts,
    fingerprint,
    problems,
)
from tests.support.log.crash_check import stored_batches
from tests.support.log.log import PLACE, TOPIC_ID, World


def told(play: Callable[[Story], None]) -> Story:
    story = Story()
    play(story)
    return story


@pytest.mark.parametrize("play", STORIES, ids=name_of)
def test_whatever_a_power_cut_leaves_recovers_to_what_was_promised(
    play: Callable[[Story], None],
) -> None:
    assert_nothing_found(play.__name__, told(play))


@pytest.mark.parametrize("play", [rolls, retention_by_size], ids=name_of)
def test_a_second_power_cut_during_recovery_loses_no_more(play: Callable[[Story], None]) -> None:
    story = told(play)
    cuts = states = 0
    seen: set[tuple[int, bytes]] = set()
    for cut in range(0, story.ops + 1, 5):
        for left in crash_states(story.world.disk, cut, seed=2, samples=1):
            story.world.after_power_cut(left).close()
            for again in range(len(left.ops) + 1):
                cuts += 1
                for twice in crash_states(left, again, seed=3, samples=1):
                    states += 1
                    if (cut, key := fingerprint(twice)) not in seen:
                        seen.add((cut, key))
                        found = list(problems(story, cut, twice))
                        assert found == [], f"cut before {cut}, then before {again}"
    COUNTS[f"{play.__name__}, cut in its recovery"] = Count(cuts, states, len(seen))


@pytest.mark.parametrize("play", [rolls, truncation], ids=name_of)
def test_what_a_recovery_cut_off_stays_away_through_the_next_power_cut(
    play: Callable[[Story], None],
) -> None:
    first = told(play)
    total = Count()
    for cut in range(0, first.ops + 1, 4):
        for left in crash_states(first.world.disk, cut, seed=4, samples=1):
            again = resumed(first, left)
            if again is None:
                continue
            log = again.log()
            for number in range(2):
                again.append(log, b"n%d" % number * 70, epoch=max(log.epochs.latest, 0))
                again.flush(log)
            count, found = enumerate_cuts(again, samples=1, since=again.begun)
            assert found == [], f"first cut before {cut}"
            total += count
    COUNTS[f"{play.__name__}, cut, gone on, cut again"] = total


def resumed(before: Story, left: SimDisk) -> Story | None:
    """The story of a world that starts with what a cut left: all that is found then is told."""
    world: World = before.world.after_power_cut(left)
    log = world.directory.logs.get(PLACE)
    if log is None:
        return None
    story = Story(world)
    history = History(PLACE, log.topic_id, before.config)
    story.histories.append(history)
    for header, data in stored_batches(log):
        last = header.base_offset + header.last_offset_delta
        history.batches.append(Told(header.base_offset, last, data, since=0))
    history.starts.append((0, log.start_offset))
    history.marks.append((0, NEVER))
    if log.topic_id != NO_TOPIC_ID:
        history.tell(story.ops, log.end_offset)
    else:
        history.topic_id = TOPIC_ID
        log.adopt_topic_id(TOPIC_ID)  # durable with the next flush, as all of it is
    return story


def test_a_clean_stop_is_believed_only_when_everything_is_on_the_platter() -> None:
    story = Story()
    log = story.create()
    for number in range(5):
        story.append(log, b"s%d" % number * 40)
    end = log.end_offset
    story.world.directory.close()
    clean = 0
    for cut in range(story.ops + 1):
        for left in crash_states(story.world.disk, cut, seed=1):
            after = story.world.after_power_cut(left)
            if after.directory.loader.was_clean:
                clean += 1
                found = after.directory.logs[PLACE]
                assert found.end_offset == end
                assert [data for _, data in stored_batches(found)] == [
                    one.data for one in story.history().batches
                ]
            after.close()
    assert clean
