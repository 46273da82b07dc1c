"""What a follower says and does about a partition's answer, with the rest of the broker in hand."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.log.follower_append import UnexpectedBatch
from headrace.log.truncation import BelowHighWatermark
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, TopicPartition
from headrace.record.compression import CorruptBatch
from headrace.replication.fetch_responses import Arrived, FetchResponses
from headrace.wire.kafka.hot import list_offsets
from headrace.wire.kafka.hot.fetch_response import EpochEndOffset, FetchedPartition

PLACE = TopicPartition("t", 7)
END = 5


class Hand:
    """A follower of broker 3 whose log ends at 5, and what was done with it."""

    def __init__(self, *, fails: Exception | None = None, cut_at: int | None = END) -> None:
        self.fails = fails
        self.cut_at = cut_at
        self.rested = 0
        self.done: list[tuple[str, object]] = []
        self.when_cut: list[Any] = []
        self.cut_uncleanly: list[bool] = []
        self.log: Any = SimpleNamespace(
            topic_partition=PLACE, end_offset=Offset(END), start_offset=Offset(0), cutting=False,
            segments=[SimpleNamespace(size=100)],
        )  # fmt: skip
        self.partition: Any = SimpleNamespace(
            topic_partition=PLACE, log=self.log,
            close=lambda code: self.done.append(("close", code)),
        )  # fmt: skip
        self.member: Any = SimpleNamespace(
            key=(b"i" * 16, 7), ready=True, partition=self.partition, succeeded=self._succeeded,
            follower=SimpleNamespace(
                leader=3, unclean=False, append=self._append, offset_to_cut=self._offset_to_cut,
                move_start=lambda start: self.done.append(("start", start)),
            ),
        )  # fmt: skip
        directory = SimpleNamespace(
            path="/data",
            logs={PLACE: self.log},
            truncate_logs=self._truncate,
            reset_logs=self._reset,
        )
        broker: Any = SimpleNamespace(
            clock=SimpleNamespace(wall_ms=lambda: 1), directories=[directory],
            unfollow=lambda partition: self.done.append(("unfollow", partition)),
            throttles=SimpleNamespace(follower=SimpleNamespace(throttles=lambda *_: False)),
        )  # fmt: skip
        means: Any = SimpleNamespace(
            writes=SimpleNamespace(begin=lambda: None, end=lambda told: False)
        )
        self.answers = FetchResponses(
            broker,
            means,
            BrokerId(3),
            self._rest,
            lambda partition: self.done.append(("left", partition)),
        )

    def take(self, **fetched: Any) -> list[Any]:
        """What was done with an answer."""
        arrived = Arrived(self.member, FetchedPartition(7, **fetched))
        missed = asyncio.run(self.answers.take([arrived]))
        assert missed in ([], [self.member.key])
        return missed

    def _rest(self, member: object) -> bool:
        self.rested += 1
        return self.rested == 1

    def _succeeded(self) -> None:
        self.done.append(("succeeded", None))

    def _append(self, data: memoryview, mark: Offset, now_ms: int) -> None:
        if self.fails is not None:
            raise self.fails
        self.done.append(("append", (bytes(data), mark, now_ms)))

    def _offset_to_cut(self, epoch: LeaderEpoch, end: Offset) -> int | None:
        if self.fails is not None:
            raise self.fails
        return self.cut_at

    def _truncate(self, logs: object, done: Any, *, unclean: bool) -> None:
        self.done.append(("cut", logs))
        self.cut_uncleanly.append(unclean)
        self.when_cut.append(done)

    def _reset(self, logs: object, done: object) -> None:
        self.done.append(("reset", logs))


DIVERGED = {"diverging_epoch": EpochEndOffset(4, 9)}


@pytest.mark.parametrize(
    ("fails", "fetched", "why"),
    [
        (None, DIVERGED,
         "nothing of it is to be cut, the leader has epoch 4 end at 9; it is tried again,"
         " see the leader's log"),
        (None, {"error_code": ErrorCode.KAFKA_STORAGE_ERROR},
         "KAFKA_STORAGE_ERROR; it is tried again, see the leader's log"),
        (UnexpectedBatch("offset 9 does not follow", Offset(9)), {"records": b"x"},
         "offset 9 does not follow; it is tried again, the next answer may continue the log"),
        (CorruptBatch("the checksum"), {"records": b"x"},
         "CORRUPT_MESSAGE: the checksum; it is tried again, look at the leader's disk and at the"
         " network"),
        (ApiError(ErrorCode.INVALID_RECORD, "no"), {"records": b"x"},
         "INVALID_RECORD: no; it is tried again, the leader's start is taken later"),
    ],
    ids=["diverged", "refused", "unexpected", "corrupt", "api"],
)  # fmt: skip
def test_why_a_partition_cannot_be_fetched_and_what_to_do_is_said_once(
    fails: Exception | None, fetched: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(fails=fails)
    for _ in range(3):
        assert hand.take(**fetched) == [hand.member.key]
    assert caplog.messages == [f"t-7 cannot be fetched from broker 3: {why}"]
    assert hand.rested == 3
    assert hand.done == []


@pytest.mark.parametrize(
    ("fails", "fetched"),
    [
        (StorageError("failed"), {"records": b"x"}),
        (ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), {"records": b"x"}),
        (ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), DIVERGED),
        (None, {"error_code": ErrorCode.FENCED_LEADER_EPOCH}),
        (None, {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}),
        (None, {"error_code": ErrorCode.UNKNOWN_LEADER_EPOCH}),
        (None, {"error_code": ErrorCode.UNKNOWN_TOPIC_ID}),
        (None, {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ],
    ids=[
        "directory failed", "other orders", "other orders, diverged", "fenced", "not leader",
        "unknown epoch", "unknown topic id", "unknown partition",
    ],
)  # fmt: skip
def test_what_was_said_elsewhere_or_passes_by_itself_is_not_said(
    fails: Exception | None, fetched: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(fails=fails)
    assert hand.take(**fetched) == [hand.member.key]
    assert caplog.messages == []
    assert hand.done == []


@pytest.mark.parametrize(("cut_at", "done"), [(END, []), (END - 1, ["cut", "left"])])
def test_a_log_is_cut_only_below_its_end(cut_at: int, done: list[str]) -> None:
    hand = Hand(cut_at=cut_at)
    hand.take(**DIVERGED)
    assert [what for what, _ in hand.done] == done
    assert hand.rested == (not done)


@pytest.mark.parametrize("unclean", [False, True])
def test_committed_records_may_be_cut_only_after_an_unclean_election(unclean: bool) -> None:
    hand = Hand(cut_at=END - 1)
    hand.member.follower.unclean = unclean
    arrived = Arrived(hand.member, FetchedPartition(7, diverging_epoch=DIVERGED["diverging_epoch"]))
    asyncio.run(hand.answers.take([arrived, arrived]))
    hand.when_cut.pop()(BelowHighWatermark("no"))  # each is tried by itself then
    assert hand.cut_uncleanly == [unclean] * 3


def test_a_log_whose_committed_records_would_go_is_followed_no_longer() -> None:
    hand = Hand(cut_at=None)
    hand.take(**DIVERGED)
    assert hand.done == [("unfollow", hand.partition)]


@pytest.mark.parametrize("fetched", [DIVERGED, {"records": b"x"}], ids=["cut", "reset"])
def test_a_log_that_is_being_truncated_is_not_truncated_again(fetched: dict[str, Any]) -> None:
    fails = None if "records" not in fetched else UnexpectedBatch("no", Offset(4))
    hand = Hand(fails=fails, cut_at=END - 1)
    hand.log.cutting = True
    hand.log.start_offset = END
    hand.log.segments[0].size = 0
    hand.take(**fetched)
    assert hand.done == []


def test_the_writes_of_a_turn_end_if_a_partition_raises() -> None:
    hand = Hand(fails=ValueError("a bug"))
    ended: list[None] = []
    means: Any = hand.answers._dependencies

    def end(told: object) -> bool:
        ended.append(None)
        return False

    means.writes.end = end
    with pytest.raises(ValueError, match="a bug"):
        hand.take(records=b"x")
    assert ended == [None]


def test_refused_fetches_are_counted_for_each_response_and_logged_once_until_one_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hand = Hand()
    refused = {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    hand.take(**refused)
    hand.take(**refused)
    hand.take(records=b"", high_watermark=4)
    hand.take(**refused)
    assert [text.count("the leader of 1 partition followed") for text in caplog.messages] == [1, 1]
    assert hand.rested == 3


@pytest.mark.parametrize("start", [-1, 0, 1])
def test_the_leaders_start_is_taken_where_it_lies_further_on(start: int) -> None:
    hand = Hand()
    assert hand.take(records=b"", high_watermark=4, log_start_offset=start) == []
    moved = [("start", start)] if start > 0 else []
    assert hand.done == [("append", (b"", 4, 1)), *moved, ("succeeded", None)]


def test_what_came_with_records_is_looked_at_again_once_they_are_flushed() -> None:
    hand = Hand()
    assert hand.take(records=b"x", high_watermark=4) == []
    assert hand.done == [
        ("append", (b"x", 4, 1)), ("succeeded", None), ("left", hand.partition),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("base_offset", "start_offset", "size", "resets"),
    [(4, END, 0, True), (5, END, 0, False), (4, 4, 0, False), (4, END, 100, False)],
    ids=["inside", "at its end", "log not empty", "segment not empty"],
)
def test_an_empty_log_begins_anew_where_its_leaders_first_batch_does(
    base_offset: int, start_offset: int, size: int, resets: bool
) -> None:
    hand = Hand(fails=UnexpectedBatch("no", Offset(base_offset)))
    hand.log.start_offset = start_offset
    hand.log.segments[0].size = size
    assert hand.take(records=b"x") == [hand.member.key]
    assert hand.done == (
        [("reset", [(hand.log, base_offset)]), ("left", hand.partition)] if resets else []
    )
    assert hand.rested == (not resets)


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (BelowHighWatermark("no"), "committed records would go"),
        (ValueError("a mistake"), "a mistake"),
    ],
)
def test_a_replica_that_cannot_be_cut_is_out_of_service_and_keeps_its_bytes(
    failed: Exception, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(cut_at=END - 1)
    hand.take(**DIVERGED)
    (cut,) = hand.when_cut
    hand.done.clear()
    cut(failed)
    assert hand.done == [("close", ErrorCode.KAFKA_STORAGE_ERROR), ("unfollow", hand.partition)]
    (told,) = caplog.messages
    assert told.startswith(f"t-7: not cut to what broker 3, its leader, has: {why}. ")


@pytest.mark.parametrize("result", [None, StorageError("failed")])
def test_a_replica_that_was_cut_is_looked_at_again_and_one_of_a_failed_directory_too(
    result: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    hand = Hand(cut_at=END - 1)
    hand.take(**DIVERGED)
    hand.done.clear()
    hand.when_cut.pop()(result)
    assert hand.done == [("left", hand.partition)]
    assert caplog.messages == []


def test_of_several_replicas_that_could_not_be_cut_together_each_is_tried_by_itself() -> None:
    hand = Hand(cut_at=END - 1)
    arrived = Arrived(hand.member, FetchedPartition(7, diverging_epoch=DIVERGED["diverging_epoch"]))
    asyncio.run(hand.answers.take([arrived, arrived]))
    (together,) = hand.when_cut
    assert hand.done[0] == ("cut", [(hand.log, END - 1)] * 2)
    hand.done.clear()
    hand.when_cut.clear()
    together(BelowHighWatermark("no"))
    assert [what for what in hand.done if what[0] == "cut"] == [("cut", [(hand.log, END - 1)])] * 2
    for each in hand.when_cut:
        each(None)
    assert "unfollow" not in [what for what, _ in hand.done]


@pytest.mark.parametrize(
    ("start", "end", "ready", "done"),
    [
        (6, 9, True, ["reset", "left"]),
        (5, 9, True, []),
        (0, 4, True, ["cut", "left"]),
        (0, 5, True, []),
        (None, None, True, []),
        (6, 9, False, None),
        (0, 4, False, None),
    ],
)
def test_out_of_the_leaders_range_a_log_begins_anew_or_is_cut_to_its_end(
    start: int | None,
    end: int | None,
    ready: bool,
    done: list[str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand = Hand(cut_at=END - 1)
    hand.member.ready = ready
    hand.log.epochs = SimpleNamespace(latest=4)

    async def told(members: Any, which: int, *_: object) -> Any:
        found = start if which == list_offsets.EARLIEST else end
        return SimpleNamespace(get=lambda _: found)

    monkeypatch.setattr(hand.answers, "_ask_offsets", told)
    nothing: Any = None
    asyncio.run(hand.answers.find_place([hand.member], nothing))
    assert [what for what, _ in hand.done] == (done or [])
    assert hand.rested == (done == [])
