"""What the power is cut in the middle of: one story for each thing a log does to its disk."""

from collections.abc import Callable
from dataclasses import replace

from headrace.log.index_writer import DELAY_SECONDS
from headrace.log.retention import apply_retention
from headrace.model.nouns import TopicPartition
from tests.support.log.crash import Story
from tests.support.log.log import NOW_MS, PLACE

OTHER = TopicPartition("u", 3)
NEW_ID = bytes(range(16, 32))


def appends_and_flushes(story: Story) -> None:
    log = story.create()
    for number in range(6):
        story.append(log, b"%d" % number, b"x" * (number * 90), timestamp=NOW_MS + number % 4)
        if number % 2:
            story.flush(log)
    story.world.directory.flusher.flush_soon(log)
    story.world.clock.turn()
    story.append(log, b"written while the flush runs")
    story.world.settle()
    story.flush(log)


def index_entries_written_early(story: Story) -> None:
    log = story.create()
    for number in range(8):
        story.append(log, b"i%d" % number * 60, timestamp=NOW_MS + number)
        if number in (2, 4, 7):
            story.world.clock.advance(DELAY_SECONDS)
            story.world.clock.turn()
        if number in (3, 6):
            story.flush(log)
    story.truncate((log, 6))
    story.append(log, b"after the cut" * 20, epoch=1)
    story.world.clock.advance(DELAY_SECONDS)
    story.world.settle()


def rolls(story: Story) -> None:
    log = story.create()
    for number in range(8):
        story.append(log, b"r%d" % number * 60, producer=(7, 0, number), timestamp=NOW_MS + number)
        if number in (1, 4, 6):
            story.flush(log)
    assert len(log.segments) > 2
    story.checkpoint()
    story.append(log, b"after the checkpoint", producer=(7, 0, 8))
    story.flush(log)


def retention_by_size(story: Story) -> None:
    log = story.create()
    for number in range(8):
        story.append(log, b"o%d" % number * 60)
    story.flush(log)
    log.config = replace(log.config, retention_bytes=700, file_delete_delay_ms=1000)
    story.move_start(log, lambda: apply_retention(log, NOW_MS))
    assert log.start_offset > 0
    story.append(log, b"later")
    story.flush(log)
    story.world.clock.advance(2)
    story.world.settle()


def retention_by_time(story: Story) -> None:
    log = story.create()
    for number in range(6):
        story.append(log, b"o%d" % number * 60, timestamp=NOW_MS + number, epoch=number // 3)
    story.flush(log)
    story.checkpoint()
    log.config = replace(log.config, retention_ms=1000, file_delete_delay_ms=0)
    story.move_start(log, lambda: apply_retention(log, NOW_MS + 1100))
    assert log.start_offset == log.end_offset, "the active segment goes too"
    story.world.settle()
    story.append(log, b"later", epoch=2)
    story.flush(log)


def deleted_records(story: Story) -> None:
    log = story.create()
    for number in range(7):
        story.append(log, b"d%d" % number * 60, epoch=number // 2)
    story.flush(log)
    story.delete_records(log, 5)
    story.world.directory.apply_retention()
    story.append(log, b"later", epoch=3)
    story.flush(log)
    story.delete_records(log, 7)


def checkpoints(story: Story) -> None:
    log = story.create()
    for number in range(4):
        story.append(log, b"c%d" % number * 40, epoch=number)
        story.flush(log)
        story.checkpoint()
    story.append(log, b"not flushed", epoch=4)
    story.checkpoint()


def epochs(story: Story) -> None:
    """Each leader writes a little; the epoch file is replaced behind the log's back."""
    log = story.create()
    for number in range(5):
        story.append(log, b"e%d" % number * 70, epoch=number * 2)
        story.append(log, b"f%d" % number, epoch=number * 2)
        if number in (1, 2):
            story.flush(log)
    story.flush(log)


def transactions(story: Story) -> None:
    log = story.create()
    for number in range(4):
        story.append(log, b"t%d" % number * 30, producer=(9, 0, number), transactional=True)
        story.append(log, b"u%d" % number, producer=(10, 0, number), transactional=number == 2)
        story.end_transaction(log, 9, commit=bool(number % 2))
        story.flush(log)
    story.checkpoint()


def transactions_through_a_kill(story: Story) -> None:
    """What a start after a kill builds again beside the newest segment, which then is closed."""
    log = story.create()
    story.append(log, b"undone", producer=(9, 0, 0), transactional=True)
    story.end_transaction(log, 9, commit=False)
    story.flush(log)
    story.restart(clean=False)
    log = story.log()
    for number in range(3):
        story.append(log, b"r%d" % number * 120)
    assert len(log.segments) > 1
    story.flush(log)
    story.checkpoint()


def stop_and_start(story: Story) -> None:
    log = story.create()
    story.append(log, b"before", producer=(5, 0, 0))
    story.flush(log)
    story.append(log, b"before the stop", producer=(5, 0, 1))
    story.restart(clean=True)
    log = story.log()
    story.append(log, b"after" * 90, producer=(5, 0, 2))
    story.flush(log)
    story.restart(clean=True)
    story.restart(clean=True)


def transactions_and_a_stop(story: Story) -> None:
    """The first abort makes a .txnindex; all is flushed before the stop."""
    log = story.create()
    story.append(log, b"plain")
    story.flush(log)
    for number in range(2):
        story.append(log, b"t%d" % number, producer=(9, 0, number), transactional=True)
        story.end_transaction(log, 9, commit=False)
        story.flush(log)
    story.restart(clean=True)


def producers_through_restarts(story: Story) -> None:
    """Snapshots: at rolls, at clean stops, and of many producers so that they span sectors."""
    log = story.create()
    for number in range(24):
        story.append(log, b"p" * 10, producer=(number, 0, 0))
    story.flush(log)
    story.restart(clean=True)
    log = story.log()
    for number in range(24):
        story.append(log, b"q" * 10, producer=(number, 0, 1))
    story.flush(log)
    story.checkpoint()
    story.restart(clean=True)


def creations_and_a_deletion(story: Story) -> None:
    log = story.create()
    other = story.create(OTHER, NEW_ID)
    story.world.settle()
    story.append(log, b"kept")
    story.append(other, b"doomed" * 50)
    story.append(other, b"doomed" * 50)
    story.flush(log)
    story.flush(other)
    story.checkpoint()
    story.delete(OTHER)
    story.append(log, b"kept too")
    story.flush(log)
    story.world.clock.advance(61)
    story.world.settle()


def a_topic_made_again(story: Story) -> None:
    """Deleted with all its checkpoints written, and made anew by the same name."""
    log = story.create()
    for number in range(6):
        story.append(log, b"old%d" % number * 40)
    story.flush(log)
    story.delete_records(log, 4)
    story.checkpoint()
    story.delete()
    log = story.create(PLACE, NEW_ID)
    story.world.settle()
    story.append(log, b"new")
    story.flush(log)
    story.append(log, b"new too")
    story.flush(log)
    story.checkpoint()


def truncation(story: Story) -> None:
    """A follower throws away what its leader does not have, flushed or not, and goes on."""
    log = story.create()
    for number in range(8):
        story.append(log, b"a%d" % number * 80, producer=(7, 0, number), epoch=number // 3)
        if number == 5:
            story.flush(log)
            story.checkpoint()
    assert len(log.segments) > 3
    story.truncate((log, 7))
    story.append(log, b"b7" * 30, producer=(8, 0, 0), epoch=4)
    story.flush(log)
    story.truncate((log, 3))
    story.append(log, b"b3" * 80, producer=(8, 0, 0), epoch=5)
    story.append(log, b"b4" * 80, producer=(8, 0, 1), epoch=5)
    story.flush(log)
    story.checkpoint()


def truncation_before_any_flush(story: Story) -> None:
    """Several sealed segments wait for their flush when the youngest one is cut."""
    log = story.create()
    story.world.settle()
    for number in range(6):
        story.append(log, b"a%d" % number * 150)
    assert len(log.segments) > 3
    story.truncate((log, 5))
    story.append(log, b"b5" * 20, epoch=1)
    story.flush(log)


def truncation_during_a_flush(story: Story) -> None:
    """The flush that runs was begun for what is being cut away."""
    log = story.create()
    story.append(log, b"first")
    story.flush(log)
    for number in range(4):
        story.append(log, b"a%d" % number * 20)
    story.world.directory.flusher.flush_soon(log)
    story.world.clock.turn()
    story.truncate((log, 1))
    for number in range(5):
        story.append(log, b"b%d" % number * 25, epoch=1)
    story.world.settle()
    story.append(log, b"last", epoch=1)
    story.flush(log)


def truncation_of_several_logs(story: Story) -> None:
    """All at once: the one into its flushed part, the other into what was not, and both go on."""
    log, other = story.create(), story.create(OTHER, NEW_ID)
    for number in range(4):
        story.append(log, b"a%d" % number * 80, producer=(7, 0, number), epoch=number // 2)
        story.append(other, b"o%d" % number * 90, producer=(9, 0, number), epoch=number)
    story.flush(log)
    story.checkpoint()
    story.truncate((log, 1), (other, 3))
    story.append(log, b"b1" * 30, epoch=4)
    story.append(other, b"p3" * 30, epoch=4)
    story.flush(log)
    story.flush(other)


def reset_to_a_leaders_start(story: Story) -> None:
    """The leader has deleted more than the follower ever had."""
    log = story.create()
    for number in range(5):
        story.append(log, b"a%d" % number * 90, producer=(7, 0, number), epoch=number // 2)
    story.flush(log)
    story.checkpoint()
    story.reset(log, 40)
    story.append(log, b"b40", producer=(7, 0, 9), epoch=3)
    story.flush(log)
    story.append(log, b"b41" * 90, producer=(7, 0, 10), epoch=4)
    story.flush(log)
    story.checkpoint()


STORIES: list[Callable[[Story], None]] = [
    appends_and_flushes,
    index_entries_written_early,
    rolls,
    retention_by_size,
    retention_by_time,
    deleted_records,
    checkpoints,
    epochs,
    transactions,
    transactions_and_a_stop,
    transactions_through_a_kill,
    stop_and_start,
    producers_through_restarts,
    creations_and_a_deletion,
    a_topic_made_again,
    truncation,
    truncation_before_any_flush,
    truncation_during_a_flush,
    truncation_of_several_logs,
    reset_to_a_leaders_start,
]


def name_of(story: Callable[[Story], None]) -> str:
    """For the ids of parametrised tests."""
    return story.__name__
