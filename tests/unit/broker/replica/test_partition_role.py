"""What a change of role does, and how far a leader and a follower let the high watermark go."""

from dataclasses import replace

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import IsrChange, ReplicaFetch, Replicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.frontends.kafka.fetch import list_offsets
from headrace.log.log import Log
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset
from headrace.record.batch import Record, build
from headrace.wire.kafka.hot.list_offsets import LATEST, PartitionRequest
from tests.support.log.log import CONFIG, NOW_MS, World
from tests.support.log.log import append as append_to_log
from tests.support.processes.broker import append

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
LAG = 30.0


class Lead:
    """A partition of three replicas, led by A."""

    def __init__(
        self, *in_sync: BrokerId, min_insync_replicas: int = 1, flush_on_ack: bool = True
    ) -> None:
        self.world = World(config=replace(CONFIG, min_insync_replicas=min_insync_replicas))
        self.partition = Partition(
            self.world.log(), flusher=self.world.directory.flusher, flush_on_ack=flush_on_ack
        )
        self.lease = True
        self.lead(5, *in_sync)

    def lead(self, epoch: int, *in_sync: BrokerId, partition_epoch: int = 0) -> None:
        replicas = Replicas(A, (A, B, C), in_sync or (A, B, C), partition_epoch)
        self.partition.role.lead(
            LeaderEpoch(epoch), replicas, now=0.0, may_commit=lambda: self.lease
        )

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def term(self) -> LeaderTerm:
        assert self.partition.role.term is not None
        return self.partition.role.term

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            append(self.partition)
        self.world.settle()

    def fetch(self, broker: BrokerId, end: int, *, flushed: int | None = None, now: float = 1.0,
              epoch: int = 1) -> IsrChange | None:  # fmt: skip
        flushed_end = Offset(end if flushed is None else flushed)
        return self.term.note_fetch(ReplicaFetch(broker, Offset(end), flushed_end, epoch), now)


def brokers(change: IsrChange | None) -> list[int]:
    assert change is not None
    return [broker for broker, _ in change.in_sync]


def test_the_high_watermark_is_the_lowest_flushed_end_of_the_isr() -> None:
    lead = Lead()
    lead.write(5)
    assert lead.partition.high_watermark == 0
    lead.fetch(B, 5, flushed=2)
    assert lead.partition.high_watermark == 0, "C has said nothing yet"
    lead.fetch(C, 4)
    assert lead.partition.high_watermark == 2
    lead.fetch(B, 3)
    assert lead.partition.high_watermark == 3
    lead.fetch(B, 1)
    assert lead.partition.high_watermark == 3


def test_without_flush_on_ack_log_ends_count() -> None:
    lead = Lead(flush_on_ack=False)
    append(lead.partition)
    lead.fetch(B, 1, flushed=0)
    lead.fetch(C, 1, flushed=0)
    assert lead.partition.high_watermark == 1
    assert lead.log.flushed_offset == 0


def test_a_follower_that_reaches_everything_releases_who_waits_and_wakes_who_watches() -> None:
    lead = Lead(A, B)
    heard: list[ApiError | None] = []
    woken: list[int] = []
    lead.partition.watch(lambda: woken.append(lead.partition.high_watermark))
    lead.partition.when_committed(append(lead.partition).commit_offset, heard.append)
    lead.world.settle()
    assert (heard, woken) == ([], [])
    lead.fetch(B, 1)
    assert (heard, woken) == ([None], [1])


def test_a_committed_isr_below_the_minimum_has_the_high_watermark_stand_still() -> None:
    lead = Lead(A, min_insync_replicas=2)
    view = build([Record(0, NOW_MS, None, b"v", ())])
    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        lead.partition.append_internal(view)
    append_to_log(lead.log, b"v", epoch=5)
    lead.world.directory.flusher.flush_soon(lead.log)
    lead.world.settle()
    assert brokers(lead.fetch(B, 1)) == [A, B]
    lead.fetch(B, 1)
    assert lead.partition.high_watermark == 0, "a pending join is not counted"
    lead.partition.role.isr_committed((A, B), 1)
    assert lead.partition.high_watermark == 1
    append(lead.partition)


def test_no_more_replicas_need_to_be_in_sync_than_there_are() -> None:
    lead = Lead(min_insync_replicas=5)
    lead.write()
    lead.fetch(B, 1)
    lead.fetch(C, 1)
    assert lead.partition.high_watermark == 1
    lead.partition.role.isr_committed((A, B), 1)
    with pytest.raises(ApiError, match=r"2 in-sync .* is 3"):
        lead.partition.append_internal(build([Record(0, NOW_MS, None, b"v", ())]))


def test_a_leader_alone_in_its_isr_commits_by_its_lease_only() -> None:
    lead = Lead(A)
    lead.lease = False
    lead.write()
    assert lead.partition.high_watermark == 0
    lead.lease = True
    lead.term.lease_renewed()
    assert lead.partition.high_watermark == 1
    lead.lease = False
    lead.fetch(B, 1)
    lead.write()
    lead.fetch(B, 2)
    assert lead.partition.high_watermark == 1, "another may be elected before B is in the ISR"
    lead.partition.role.isr_committed((A, B), 1)
    assert lead.partition.high_watermark == 2


def test_a_partition_without_other_replicas_asks_for_no_lease() -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    partition.role.lead(LeaderEpoch(1))
    append(partition)
    world.settle()
    assert partition.high_watermark == 1
    assert partition.role.term is None


def test_a_replica_joins_from_the_high_watermark_and_the_start_of_the_term_on() -> None:
    lead = Lead(A, B)
    lead.write(4)
    lead.fetch(B, 2)
    lead.lead(6, A, B)
    assert (lead.term.start, lead.partition.high_watermark) == (4, 2)
    assert lead.fetch(C, 3) is None
    assert brokers(lead.fetch(C, 4)) == [A, B, C]
    assert lead.term.maximal == {A, B, C}
    assert lead.fetch(C, 4) is None, "asked for already"
    lead.write()
    lead.fetch(B, 5)
    assert lead.partition.high_watermark == 4, "the pending joiner counts"


def test_a_joiners_end_counts_as_far_as_it_is_flushed() -> None:
    lead = Lead(A, B)
    lead.write(2)
    lead.fetch(B, 2)
    assert lead.fetch(C, 2, flushed=1) is None
    assert brokers(lead.fetch(C, 2)) == [A, B, C]


def test_a_broker_without_a_replica_never_joins() -> None:
    lead = Lead(A, B)
    assert lead.fetch(BrokerId(9), 0) is None
    assert lead.term.maximal == {A, B}


def test_who_lags_leaves_and_counts_until_that_is_written() -> None:
    lead = Lead()
    lead.write(3)
    lead.fetch(B, 3, now=20.0)
    lead.fetch(C, 1, now=20.0)
    assert lead.term.shrink(30.0, LAG) is None
    assert brokers(lead.term.shrink(30.1, LAG)) == [A, B]
    lead.fetch(B, 3, now=30.2)
    assert lead.partition.high_watermark == 1
    assert lead.term.shrink(99.0, LAG) is None, "one change at a time"
    lead.partition.role.isr_committed((A, B), 1)
    assert lead.partition.high_watermark == 3
    assert lead.term.in_sync == lead.term.maximal == {A, B}


def test_who_reaches_where_the_leader_was_at_its_last_fetch_was_caught_up_then() -> None:
    lead = Lead(A, B)
    lead.write(2)
    lead.fetch(B, 0, now=10.0)
    lead.write(2)
    lead.fetch(B, 2, now=20.0)
    assert lead.term.shrink(40.0, LAG) is None
    assert brokers(lead.term.shrink(40.1, LAG)) == [A]


def test_a_replica_at_the_leaders_end_does_not_lag_however_long_it_was_silent() -> None:
    lead = Lead(A, B)
    lead.write()
    lead.fetch(B, 1, now=1.0)
    assert lead.term.shrink(1e6, LAG) is None


def test_a_lost_answer_leaves_the_union_and_older_news_is_not_taken() -> None:
    lead = Lead(A, B)
    asked = lead.fetch(C, 0)
    lead.term.isr_answer_lost()
    assert lead.term.pending == asked
    assert lead.term.maximal == {A, B, C}
    assert not lead.term.isr_committed((A,), 0)
    assert lead.term.maximal == {A, B, C}
    lead.lead(5, A, C, partition_epoch=1)
    assert lead.term.maximal == {A, C}
    assert lead.term.pending is None


def test_a_refusal_ends_the_union_unless_an_earlier_answer_was_lost() -> None:
    lead = Lead(A, B)
    lead.fetch(C, 0)
    assert lead.term.isr_refused() is None
    assert lead.term.maximal == {A, B}
    assert lead.term.pending is None
    lead.fetch(C, 0)
    lead.term.isr_answer_lost()
    assert brokers(lead.term.isr_refused()) == [A, B], "a write that outdates the one in doubt"
    assert lead.term.maximal == {A, B, C}
    lead.partition.role.isr_committed((A, B), 1)
    assert lead.term.maximal == {A, B}


def test_an_earlier_life_of_a_follower_is_not_believed() -> None:
    lead = Lead(A, B)
    lead.write(3)
    lead.fetch(B, 1, epoch=7)
    lead.fetch(B, 3, epoch=6)
    assert lead.partition.high_watermark == 1
    lead.fetch(B, 3, epoch=8)
    assert lead.partition.high_watermark == 3


def test_nobody_joins_while_another_change_is_pending() -> None:
    lead = Lead(A, B)
    lead.write()
    shrunk = lead.term.shrink(LAG + 1, LAG)
    assert lead.fetch(C, 1) is None
    assert lead.term.pending == shrunk
    assert lead.term.maximal == {A, B}


def test_a_lower_minimum_lets_the_high_watermark_go_on() -> None:
    lead = Lead(A, min_insync_replicas=2)
    append_to_log(lead.log, b"v", epoch=5)
    lead.world.directory.flusher.flush_soon(lead.log)
    lead.world.settle()
    assert lead.partition.high_watermark == 0
    lead.partition.reconfigure(CONFIG)
    assert lead.partition.high_watermark == 1


def test_the_end_is_not_told_before_the_high_watermark_reaches_the_term() -> None:
    lead = Lead(A, B)
    lead.write(2)
    lead.lead(6, A, B)
    asked = PartitionRequest(0, LATEST, 6)
    with pytest.raises(ApiError, match="OFFSET_NOT_AVAILABLE"):
        list_offsets._end_of_log(5, lead.partition, asked, False)
    lead.fetch(B, 2)
    found = list_offsets._end_of_log(5, lead.partition, asked, False)
    assert found is not None
    assert found.offset == 2


def test_a_resigned_leader_tells_all_who_wait_and_takes_nothing_of_a_coordinator() -> None:
    lead = Lead(A, B)
    batch = build([Record(0, NOW_MS, b"k", b"v", ())])
    heard: list[ApiError | None] = []
    woken: list[bool] = []
    lead.partition.watch(lambda: woken.append(True))
    lead.partition.when_committed(lead.partition.append_internal(batch).commit_offset, heard.append)
    term = lead.term
    lead.partition.role.resign()
    assert [error.code for error in heard if error] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert woken == [True]
    for call in (
        lambda: lead.partition.append_internal(batch),
        lambda: lead.partition.read(Offset(0), 100),
        lambda: term.note_fetch(ReplicaFetch(B, Offset(1), Offset(1)), 1.0),
        lambda: term.shrink(1.0, LAG),
        lambda: term.isr_committed((A,), 9),
    ):
        with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
            call()
    lead.world.settle()
    assert (lead.log.end_offset, lead.partition.high_watermark) == (1, 0)


def test_roles_come_and_go_over_the_same_log() -> None:
    lead = Lead(A, B)
    lead.write(2)
    lead.fetch(B, 2)
    follower = lead.partition.role.follow(B, LeaderEpoch(6))
    assert lead.partition.role.follow(B, LeaderEpoch(6)) is follower
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        append(lead.partition)
    with pytest.raises(ApiError, match="FENCED_LEADER_EPOCH"):
        lead.lead(5)
    lead.lead(7, A, B)
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        follower.append(memoryview(b""), Offset(9), NOW_MS)
    lead.write()
    assert lead.log.epochs.entries == [(5, 0), (7, 2)]
    assert (lead.log.end_offset, lead.partition.high_watermark) == (3, 2)
    lead.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        lead.lead(8)


def test_an_order_repeated_changes_nothing_and_more_replicas_begin_a_new_term() -> None:
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    partition.role.lead(LeaderEpoch(1))
    append(partition)
    partition.role.lead(LeaderEpoch(1))
    append(partition)
    partition.role.lead(LeaderEpoch(1), Replicas(A, (A, B), (A,), 3))
    term = partition.role.term
    partition.role.lead(LeaderEpoch(1), Replicas(A, (A, B), (A,), 3))
    assert partition.role.term is term is not None
    assert term.start == 2


def test_a_leader_left_alone_commits_all_it_has_flushed_and_wakes_who_watches() -> None:
    lead = Lead()
    lead.write(3)
    woken: list[int] = []
    lead.partition.watch(lambda: woken.append(lead.partition.high_watermark))
    lead.partition.role.lead(
        LeaderEpoch(6), Replicas(A, (A,), (A,), 1), now=2.0, may_commit=lambda: False
    )
    assert woken == [3]


def test_who_waits_for_a_term_is_told_when_a_follower_has_left_the_isr() -> None:
    """It may join again with what it has said last: nothing new comes of it."""
    world = World()
    partition = Partition(world.log(), flusher=world.directory.flusher)
    brokers = (BrokerId(0), BrokerId(1), BrokerId(2))
    partition.role.lead(LeaderEpoch(1), Replicas(brokers[0], brokers, brokers, 1))
    term, told = partition.role.term, list[str]()
    assert term is not None
    term.watch(lambda: told.append("told"))
    partition.role.isr_committed(brokers[:2], 2)
    assert told == ["told"]
    partition.role.isr_committed(brokers, 3)
    assert told == ["told"]


def test_a_member_whose_log_ends_below_what_is_committed_has_to_leave() -> None:
    """Its log got shorter outside of replication: it may not be elected with what is left."""
    lead = Lead()
    lead.write(5)
    lead.fetch(B, 5)
    lead.fetch(C, 5)
    assert lead.partition.high_watermark == 5
    lead.write(1)
    assert lead.fetch(B, 5) is None, "what is not committed it need not have"
    assert brokers(lead.fetch(C, 4)) == [A, B]
    assert lead.fetch(C, 4) is None, "it is asked for once"
    lead.term.isr_committed((A, B), 1)
    lead.fetch(B, 6)
    assert lead.fetch(C, 5) is None
    assert brokers(lead.fetch(C, 6)) == [A, B, C], "it may join once it has all"


def test_a_short_log_has_to_leave_whether_or_not_its_registration_is_known() -> None:
    lead = Lead()
    lead.write(5)
    lead.fetch(B, 5)
    lead.fetch(C, 5)
    said = ReplicaFetch(C, Offset(4), Offset(4), 2)
    assert brokers(lead.term.note_fetch(said, 1.0, may_join=False)) == [A, B]
