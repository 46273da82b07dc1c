"""What a follower is given, what is noted of it, and who is believed to be one."""

from pathlib import Path
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.replica.in_sync_replicas import IsrChange
from headrace.frontends.kafka.authentication.authorisation import CLUSTER_ACTION
from headrace.model.errors import ErrorCode
from headrace.model.nouns import Offset
from headrace.record.batch import Record, build
from tests.support.cluster.followed import (
    EPOCH,
    REGISTERED,
    TOPIC,
    A,
    Asking,
    B,
    code,
    is_flushed,
    lead,
    led,
    pending,
    records_in,
    tell,
)
from tests.support.processes.broker import Room, append, until
from tests.support.security.authorisation import Rules

# --- what is given ----------------------------------------------------------------------------


def test_a_follower_reads_to_the_logs_end_and_a_consumer_to_the_high_watermark(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        append(partition, b"one")
        append(partition, b"two")
        await until(is_flushed(partition))
        assert partition.high_watermark == 0
        given = await Asking(here).at(0)
        assert given.error_code == 0
        assert b"two" in records_in(given)
        assert (given.high_watermark, given.last_stable_offset, given.log_start_offset) == (0, 0, 0)
        assert given.aborted is None
        plain = Asking(here, -1, session=False)
        plain.registration = -1
        assert (await plain.at(0, -1, wait_ms=0)).records == b""

    tell(tmp_path, story)


def test_a_follower_is_given_what_is_not_flushed_here_yet(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        append(partition, b"one")
        assert partition.log.flushed_offset == 0
        assert b"one" in records_in(await Asking(here).at(0))

    tell(tmp_path, story)


def test_data_of_open_transactions_is_given_without_a_list_of_aborted_ones(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        data = build(
            [Record(0, 1_780_000_000_000, None, b"open", ())], producer_id=9, producer_epoch=0,
            base_sequence=0, transactional=True,
        )  # fmt: skip
        partition.append_internal(data)
        await until(is_flushed(partition))
        asking = Asking(here)
        asking.isolation = 1
        assert b"open" in records_in(await asking.at(0))
        await Asking(here, B).at(1)
        given = await asking.at(1)
        assert (given.high_watermark, given.last_stable_offset) == (1, 0)
        assert given.aborted is None

    tell(tmp_path, story)


def test_what_is_on_the_disk_only_is_read_there_to_the_logs_end(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A, B)
        append(partition, b"one")
        here.disk.cold = True
        assert b"one" in records_in(await Asking(here).at(0))

    tell(tmp_path, story)


@pytest.mark.parametrize("offset", [1, 6])
def test_offsets_outside_of_the_log_are_refused_and_not_noted(tmp_path: Path, offset: int) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        for _ in range(5):
            append(partition)
        await until(is_flushed(partition))
        asking = Asking(here)
        await asking.at(5)
        partition.delete_records(Offset(2))
        asked = await asking.told(asking.ask({0: (offset, -1)}))
        assert code(asked[0]) is ErrorCode.OFFSET_OUT_OF_RANGE
        append(partition)
        await until(is_flushed(partition))
        assert partition.high_watermark == 5

    tell(tmp_path, story)


def test_an_epoch_of_another_leader_is_refused(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await led(here, A)
        asking = Asking(here)
        for said, told in (
            (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
            (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            asking.leader_epoch = said
            assert code(await asking.at(0)) is told

    tell(tmp_path, story)


def test_who_leads_no_more_and_topics_not_there_are_told(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        asking = Asking(here)
        partition.role.resign()
        assert code(await asking.at(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        unknown = await asking.told(asking.ask({0: (0, -1)}, topic_id=b"x" * 16))
        assert code(unknown[0]) is ErrorCode.UNKNOWN_TOPIC_ID

    tell(tmp_path, story)


def test_a_broker_that_holds_no_replica_is_sent_away(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await led(here)
        lead(here, assigned=(A,))
        stranger = Asking(here, B)
        assert code(await stranger.at(0)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        stranger.leader_epoch = -1
        assert code(await stranger.at(0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        here.broker.partition(TOPIC, 0).role.lead(EPOCH + 1)  # type: ignore[arg-type]
        assert code(await Asking(here, A, session=False).at(0)) is ErrorCode.FENCED_LEADER_EPOCH

    tell(tmp_path, story)


# --- where logs part ----------------------------------------------------------------------------


async def three_epochs(here: Room) -> Partition:
    """Epochs 5, 7 and 9 with two records each."""
    partition = await led(here, A)
    for epoch in (5, 7, 9):
        lead(here, A, epoch=epoch)
        append(partition)
        append(partition)
    await until(is_flushed(partition))
    return partition


@pytest.mark.parametrize(
    ("offset", "last_epoch", "told"),
    [
        (6, 9, None),
        (2, 5, None),
        (1, 5, None),
        (2, 6, (5, 2)),  # what it has of an epoch that we never had may be as long
        (3, 5, (5, 2)),  # its epoch went on where ours ended
        (4, 6, (5, 2)),  # an epoch that we never had
        (5, 8, (7, 4)),
        (7, 9, (9, 6)),  # the leader has lost what it had
    ],
)
def test_a_follower_is_told_where_its_log_leaves_the_leaders(
    tmp_path: Path, offset: int, last_epoch: int, told: tuple[int, int] | None
) -> None:
    async def story(here: Room) -> None:
        partition = await three_epochs(here)
        asking = Asking(here)
        asking.leader_epoch = 9
        given = await asking.at(offset, last_epoch)
        assert given.error_code == 0
        if told is None:
            assert given.diverging_epoch == (-1, -1)
            assert partition.high_watermark == offset
        else:
            assert given.diverging_epoch == told
            assert (given.records, partition.high_watermark) == (b"", 0)

    tell(tmp_path, story)


def test_parting_is_told_at_once_and_again_in_a_session(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await three_epochs(here)
        asking = Asking(here)
        asking.leader_epoch = 9
        for _ in range(2):
            given = await asking.told(asking.ask({0: (3, 5)}))
            assert given[0].diverging_epoch == (5, 2)
        unnamed = await asking.told(asking.ask({}))
        assert unnamed[0].diverging_epoch == (5, 2)

    tell(tmp_path, story)


def test_an_epoch_of_which_the_end_is_not_known_is_out_of_range(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await three_epochs(here)
        asking = Asking(here)
        asking.leader_epoch = 9
        assert code(await asking.at(6, 10)) is ErrorCode.OFFSET_OUT_OF_RANGE

    tell(tmp_path, story)


# --- what is noted ------------------------------------------------------------------------------


def test_the_high_watermark_moves_by_the_fetch_and_its_answer_says_so(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        appended = append(partition)
        heard: list[Any] = []
        partition.when_committed(appended.commit_offset, heard.append)
        await until(is_flushed(partition))
        asking = Asking(here)
        await asking.at(0)
        assert (heard, partition.high_watermark) == ([], 0)
        assert (await asking.at(1)).high_watermark == 1
        assert heard == [None]

    tell(tmp_path, story)


def test_a_follower_that_has_all_is_wanted_in_the_isr(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here)
        append(partition)
        await until(is_flushed(partition))
        asked: list[IsrChange | None] = []
        here.broker.isr_wanted = lambda wanted: asked.append(pending(wanted))
        asking = Asking(here)
        await asking.at(0)
        assert asked == []
        await asking.told(asking.ask({0: (1, EPOCH)}, wait_ms=0))
        own = here.broker.broker_id
        assert asked == [IsrChange(0, ((own, -1), (A, REGISTERED)))]

    tell(tmp_path, story)


def test_an_earlier_registrations_fetch_counts_for_nothing_and_a_later_ones_not_to_join(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here)
        term = partition.role.term
        assert term is not None
        append(partition)
        asking = Asking(here)
        asking.registration = REGISTERED - 1
        assert code(await asking.at(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        asking.registration = REGISTERED + 1
        assert (await asking.at(1)).error_code == 0
        assert term.pending is None
        asking = Asking(here, B)
        await asking.at(1)
        assert term.pending is not None

    tell(tmp_path, story)


def test_a_join_that_was_refused_is_asked_for_again_by_a_follower_that_names_nothing(
    tmp_path: Path,
) -> None:
    async def story(here: Room) -> None:
        partition = await led(here)
        term = partition.role.term
        assert term is not None
        asking = Asking(here)
        await asking.at(0)
        assert pending(partition)
        term.isr_refused()
        assert not pending(partition)
        await asking.told(asking.ask({}, wait_ms=0))
        assert pending(partition)
        assert partition.role.term is term

    tell(tmp_path, story)


def test_a_follower_in_an_idle_session_does_not_lag_when_the_log_grows(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        term, clock = partition.role.term, here.broker.clock
        assert term is not None
        asking = Asking(here)
        await asking.at(0)
        for _ in range(4):
            clock.advance(10)  # type: ignore[attr-defined]
            await asking.told(asking.ask({}, wait_ms=0))
        append(partition)
        clock.advance(9)  # type: ignore[attr-defined]
        assert term.shrink(clock.monotonic(), 10.0) is None
        append(partition)
        clock.advance(2)  # type: ignore[attr-defined]
        assert term.shrink(clock.monotonic(), 10.0) is not None

    tell(tmp_path, story)


# --- who is believed ----------------------------------------------------------------------------


def test_only_another_registered_broker_is_believed_to_be_a_follower(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        partition = await led(here, A)
        append(partition)
        await until(is_flushed(partition))
        for who in (here.broker.broker_id, 99):
            stranger = Asking(here, who)
            answer = await stranger.answered(stranger.ask({0: (1, EPOCH)}))
            (told,) = answer.topics[0].partitions
            assert code(told) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert answer.session_id == 0
        assert partition.high_watermark == 0

    tell(tmp_path, story)


def test_who_may_not_act_for_the_cluster_is_no_follower(tmp_path: Path) -> None:
    async def story(here: Room) -> None:
        await led(here, A)
        assert code(await Asking(here).at(0)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    tell(tmp_path, story, authorizer=Rules(CLUSTER_ACTION))
