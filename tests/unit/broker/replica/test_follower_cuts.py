"""Where a follower cuts its log, by what its leader says of an epoch."""

from typing import Any

import pytest

from headrace.broker.replica.follower import Follower
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset

ENDS = {0: 5, 2: 9, 4: 12}
"""Of each epoch in the log, its end; the last one's is the log's."""


class LogOfEpochs:
    """As much of a log as is asked here."""

    topic_partition = "t-0"
    end_offset = Offset(12)
    flushed_offset = Offset(10)
    high_watermark = Offset(4)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        known = [one for one in ENDS if one <= epoch]
        return (max(known), ENDS[max(known)]) if known else (-1, -1)


class Following:
    """A partition in memory that notes what it was told."""

    def __init__(self) -> None:
        self.log = LogOfEpochs()
        self.flushes_on_ack = True
        self.told: list[Any] = []

    def advance(self, upto: Offset) -> None:
        self.told.append(upto)

    def flush(self) -> None:
        self.told.append("flush")

    def close(self, because: ErrorCode) -> None:
        self.told.append(because)


def follower(*, unclean: bool = False) -> tuple[Follower, Any]:
    following: Any = Following()
    return Follower(following, BrokerId(1), unclean=unclean), following


@pytest.mark.parametrize(
    ("epoch", "end", "cut"),
    [
        (4, 20, 12),
        (4, 10, 10),
        (2, 8, 8),
        (2, 9, 9),
        (3, 8, 9),
        (1, 3, 5),
        (0, 5, 5),
        (0, 4, 4),
        (-1, 7, 7),
        (-1, 20, 12),
    ],
)
def test_it_cuts_where_both_have_the_same(epoch: int, end: int, cut: int) -> None:
    mine, following = follower()
    assert mine.offset_to_cut(LeaderEpoch(epoch), Offset(end)) == cut
    assert following.told == []


def test_what_was_committed_never_goes_but_by_an_unclean_election() -> None:
    mine, following = follower()
    assert mine.offset_to_cut(LeaderEpoch(0), Offset(3)) is None
    assert following.told == [ErrorCode.KAFKA_STORAGE_ERROR]
    mine, following = follower(unclean=True)
    assert mine.offset_to_cut(LeaderEpoch(0), Offset(3)) == 3
    assert following.told == []


def test_its_high_watermark_is_the_leaders_as_far_as_it_is_flushed_here() -> None:
    mine, following = follower()
    assert mine.committed_end() == 0
    for leaders, own in ((3, 3), (10, 10), (11, 10)):
        assert mine.append(memoryview(b""), Offset(leaders), 0) == 12
        assert following.told.pop() == own == mine.committed_end()
    following.flushes_on_ack = False
    assert mine.committed_end() == 11
    mine.append(memoryview(b""), Offset(13), 0)
    assert following.told == [12]


def test_a_leader_that_is_followed_no_longer_says_nothing_any_more() -> None:
    mine, following = follower()
    mine.ended = True
    with pytest.raises(ApiError) as refused:
        mine.append(memoryview(b""), Offset(3), 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as refused:
        mine.offset_to_cut(LeaderEpoch(0), Offset(3))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert following.told == []
