"""Where a share group begins: at either end, or at the first record since a time."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.config.durations import duration_ms
from headrace.delivery.start_offset import find_start
from headrace.model.errors import ApiError, ErrorCode

NOW_MS = 1_000_000


class Ends:
    """A partition from 5 to 9, a search by time that finds `found`, and a disk that does it."""

    def __init__(self, found: object = None) -> None:
        self.found = found
        self.asked: list[int] = []
        self.high_watermark = 9
        self.log_start_offset = 5
        self.log = SimpleNamespace(offset_for_time=self.search)
        self.role = SimpleNamespace(when_flushed=self.flush)
        self.flushing: int | ApiError | None = None
        """Where the flush has the log end, or why it failed; None: nothing waits for it."""

    def search(self, since_ms: int) -> object:
        self.asked.append(since_ms)
        return self.found

    def flush(self, done: Any) -> None:
        if isinstance(self.flushing, int):
            self.high_watermark = self.flushing
        done(self.flushing if isinstance(self.flushing, ApiError) else None)

    def run(self, work: Any, done: Any) -> None:
        done(work())

    def start(self, strategy: str) -> int | ApiError:
        told: list[int | ApiError] = []
        here: Any = self
        find_start(here, strategy, NOW_MS, here, told.append)
        (start,) = told
        return start


@pytest.mark.parametrize(("strategy", "start"), [("earliest", 5), ("latest", 9)])
def test_a_group_begins_at_either_end_without_a_search(strategy: str, start: int) -> None:
    ends = Ends()
    assert ends.start(strategy) == start
    assert ends.asked == []


def test_latest_is_behind_records_acknowledged_before_their_flush() -> None:
    ends = Ends()
    ends.flushing = 12
    assert ends.start("latest") == 12
    ends.flushing = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert ends.start("latest") is ends.flushing


@pytest.mark.parametrize(
    ("found", "start"), [(None, 9), ((77, 8, 1), 8), ((77, 9, 1), 9), ((77, 10, 1), 9)]
)
def test_a_group_begins_at_the_first_record_of_a_time_that_is_committed(
    found: object, start: int
) -> None:
    ends = Ends(found)
    assert ends.start("by_duration:PT10S") == start
    assert ends.asked == [NOW_MS - 10_000]


def test_a_search_that_fails_is_told_by_its_code_or_as_the_disks() -> None:
    refused = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert Ends(refused).start("by_duration:PT1S") is refused
    error = Ends(OSError("no disk")).start("by_duration:PT1S")
    assert isinstance(error, ApiError)
    assert (error.code, error.message) == (ErrorCode.KAFKA_STORAGE_ERROR, "no disk")


def test_a_duration_that_is_none_is_told_as_a_wrong_setting() -> None:
    error = Ends().start("by_duration:P")
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.INVALID_CONFIG
    assert str(error.message).startswith("share.auto.offset.reset: 'P' is no duration")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0.999999999S", 999),
        ("PT0.001S", 1),
        ("PT0,5S", 500),
        ("P1DT2H3M4.05S", ((26 * 60 + 3) * 60 + 4) * 1000 + 50),
        ("p2d", 172_800_000),
    ],
)
def test_durations_are_whole_milliseconds(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds
