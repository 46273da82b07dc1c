"""Every write and every flush of a story fails in its turn: what follows keeps what was promised.

The log directory is fenced then, whatever was being done. Three things may come of it: the process
is killed and another starts in the same boot, the power goes, or somebody stops the broker.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy

import pytest

from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.crash.stories import STORIES, name_of
from tests.support.log.crash import COUNTS, Count, Story, fingerprint, problems, promises

STEP = 1 if os.environ.get("HEADRACE_LONG") else 5
"""Of how many operations one is made to fail; all in `make crash`."""


def until_it_fails(
    play: Callable[[Story], None], plan: Callable[[SimDisk], None]
) -> tuple[Story, bool]:
    """The story up to where the disk gave in, and whether whoever plays it was told.

    Where the story only misses what it expects of itself, nobody was told.
    """
    story = Story()
    plan(story.world.disk)
    told = False
    try:
        play(story)
    except (StorageError, OSError):
        told = True
    except ApiError as error:
        told = error.code is ErrorCode.KAFKA_STORAGE_ERROR
    except AssertionError:
        pass
    story.world.settle()
    return story, told


def left_by(story: Story) -> Iterator[tuple[str, SimDisk]]:
    """What the next process may find, in this boot and in another; ends the story's process."""
    disk, cut = story.world.disk, story.ops
    yield "in the same boot", disk.left_by_a_kill()
    for left in crash_states(disk, cut, seed=1, samples=1):
        yield "after a power cut", left
    with suppress(StorageError):
        story.world.directory.close(clean=True)
    story.world.settle()
    yield "after a stop", disk.left_by_a_kill()


def plans(kind: str, number: int) -> Iterator[tuple[str, Callable[[SimDisk], None]]]:
    """Ways for operation `number` to fail."""
    if kind == "sync":
        yield "EIO once", lambda disk: disk.fail_syncs(number)
        yield "EIO from then on", lambda disk: disk.fail_syncs(number, sticky=True)
    else:
        yield "ENOSPC from then on", lambda disk: disk.fail_writes(number)
        yield "EIO, torn", lambda disk: disk.fail_writes(number, errno.EIO, 30, sticky=False)


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("play", STORIES, ids=name_of)
def test_whatever_write_or_flush_fails_nothing_promised_is_lost(
    play: Callable[[Story], None], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Story()
    begun = copy(whole.world.disk.counts)
    play(whole)
    total = whole.world.disk.counts[kind] - begun[kind]
    tried = states = 0
    seen: set[object] = set()
    for number in range(0, total, STEP):
        for name, plan in plans(kind, number):
            caplog.clear()
            story, told = until_it_fails(play, plan)
            said = any("is fenced" in line for line in caplog.messages)
            assert told or said, f"{kind} {number}: {name} went unnoticed"
            cut = story.ops
            for when, left in left_by(story):
                states += 1
                same_boot = left.boot == story.world.disk.boot
                seen.add((same_boot, fingerprint(left), promises(story, cut)))
                found = list(problems(story, cut, left))
                assert found == [], f"{kind} {number}: {name}, {when}"
            story.world.close()
            tried += 1
    COUNTS[f"{play.__name__}, a {kind} fails"] = Count(tried, states, len(seen))
