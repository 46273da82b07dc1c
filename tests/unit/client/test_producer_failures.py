"""What a producer does with answers that are refusals, and with answers that do not come."""

import pytest

from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.client.transport.port import CannotConnect, ConnectionLost, TimedOut
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from headrace.wire.kafka.hot.produce import PartitionResponse
from tests.support.cluster.hand_cluster import HandCluster

WHERE = TopicPartition("t", 0)
LATER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def refused(code: ErrorCode, text: str | None = None, partition: int = 0) -> PartitionResponse:
    """The answer to a batch that is not stored."""
    return PartitionResponse(partition, code, error_message=text)


def producer_of(cluster: HandCluster, retry_seconds: float = 30.0) -> Producer:
    """A producer that has asked for everything it needs to know."""
    producer = Producer(cluster.client(retry_seconds=retry_seconds))
    send(producer)
    run(producer.flush())
    return producer


def send(producer: Producer, partition: int = 0) -> None:
    """Give it a record, as a batch that is sent."""

    async def story() -> None:
        await producer.send("t", b"v", timestamp=1, partition=partition)
        await producer.dispatch()

    run(story())


def sequences(cluster: HandCluster) -> list[int]:
    """The first sequence of each batch of partition 0, as they were sent."""
    return [wire.parse_header(memoryview(one.batches[0])).base_sequence for one in cluster.asked]


def test_a_batch_that_was_stored_before_is_acknowledged_and_moves_no_offset() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)]
    send(producer)
    run(producer.flush())
    assert (producer.acknowledged, producer.offsets) == (2, {WHERE: 0})
    assert len(cluster.asked) == 2
    assert cluster.slept == []


def test_what_may_pass_is_sent_again_in_the_same_bytes_after_ever_longer_waits() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [refused(LATER)] * 7
    send(producer)
    run(producer.flush())
    assert len({one.batches[0] for one in cluster.asked[1:]}) == 1
    assert len(cluster.asked) == 1 + 7 + 1
    ever_longer = [BACKOFF_SECONDS_MIN * factor for factor in (1, 2, 4, 8, 16)]
    assert cluster.slept == [*ever_longer, BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MAX]
    assert producer.offsets == {WHERE: 100}


def test_who_leads_is_asked_for_anew_after_a_failure_and_only_then() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    send(producer)
    run(producer.flush())
    assert len(cluster.metadata_requests) == 1
    cluster.answers = [refused(LATER)]
    cluster.leaders = {"t": [1, 0, 0]}
    send(producer)
    run(producer.flush())
    assert len(cluster.metadata_requests) == 2
    assert [one.broker for one in cluster.asked] == [0, 0, 0, 1]


@pytest.mark.parametrize("text", ["the reason", None])
def test_what_will_not_pass_is_raised_at_once_with_partition_and_reason(text: str | None) -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [refused(ErrorCode.INVALID_RECORD, text)]
    send(producer)
    with pytest.raises(ApiError) as raised:
        run(producer.flush())
    assert raised.value.code is ErrorCode.INVALID_RECORD
    reason = " (the reason)" if text else ""
    assert str(raised.value).endswith(f"t-0: not stored{reason}")
    assert cluster.slept == []
    assert producer.acknowledged == 1


def test_an_answer_that_leaves_a_batch_out_is_an_error_with_these_words() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [None]
    send(producer)
    with pytest.raises(ApiError, match="t-0: not stored \\(no answer\\)") as raised:
        run(producer.flush())
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_batches_behind_one_that_failed_are_sent_again_behind_it_one_after_the_other() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    cluster.answers = [refused(LATER), refused(gap), refused(gap)]
    for _ in range(3):
        send(producer)
    run(producer.flush())
    assert sequences(cluster) == [0, 1, 2, 3, 1, 2, 3]
    assert (producer.acknowledged, producer.offsets) == (4, {WHERE: 300})
    assert cluster.slept == [BACKOFF_SECONDS_MIN]


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_a_gap_before_the_first_batch_is_raised(code: ErrorCode) -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [refused(code)]
    send(producer)
    with pytest.raises(ApiError) as raised:
        run(producer.flush())
    assert raised.value.code is code


def test_of_several_failures_the_one_that_lasts_is_raised() -> None:
    lasting = refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=1)
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [refused(LATER), lasting]
    send(producer, 0)
    send(producer, 1)
    with pytest.raises(ApiError) as raised:
        run(producer.flush())
    assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "t-1: not stored" in str(raised.value)


def test_in_one_answer_a_failure_that_lasts_counts_more_than_one_that_passes() -> None:
    lasting = refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=1)
    for answers in (
        [refused(LATER), lasting, refused(LATER, partition=2)],
        [refused(LATER, partition=0), lasting, refused(ErrorCode.INVALID_RECORD, partition=2)],
    ):
        cluster = HandCluster()
        producer = producer_of(cluster)
        cluster.answers = list(answers)

        async def story(producer: Producer = producer) -> None:
            for partition in range(3):
                await producer.send("t", b"v", timestamp=1, partition=partition)
            await producer.flush()

        with pytest.raises(ApiError) as raised:
            run(story())
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("error", [ConnectionLost("gone"), TimedOut("late")])
def test_answers_that_do_not_come_are_no_word_about_the_batch_which_is_sent_again(
    error: ConnectionLost | TimedOut,
) -> None:
    cluster = HandCluster()
    producer = producer_of(cluster)
    cluster.answers = [error, error]
    for _ in range(3):
        send(producer)
    run(producer.flush())
    assert sequences(cluster) == [0, 1, 2, 3, 1, 2]
    assert (producer.acknowledged, producer.offsets) == (4, {WHERE: 300})


def test_a_batch_is_tried_for_so_long_since_it_was_first_sent_and_no_longer() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster, retry_seconds=10.0)
    began = cluster.seconds
    cluster.answers = [refused(LATER)] * 1000
    send(producer)
    cluster.seconds += 5
    with pytest.raises(ApiError) as raised:
        run(producer.flush())
    assert raised.value.code is LATER
    # 0.05 + 0.1 + 0.2 + 0.4 + 0.8 and then seconds: the first that is more than ten.
    assert 10 < cluster.seconds - began < 11
    assert cluster.slept[-1] == BACKOFF_SECONDS_MAX


def test_the_time_of_a_batch_that_was_acknowledged_is_not_the_next_ones() -> None:
    cluster = HandCluster()
    producer = producer_of(cluster, retry_seconds=10.0)
    cluster.seconds += 60
    cluster.answers = [refused(LATER)] * 3
    send(producer)
    run(producer.flush())
    assert producer.acknowledged == 2


@pytest.mark.parametrize("elapsed", [10.0, 10.001])
def test_a_failure_at_the_last_moment_is_still_tried_again(elapsed: float) -> None:
    cluster = HandCluster()
    producer = producer_of(cluster, retry_seconds=10.0)
    cluster.answers = [refused(LATER)]
    send(producer)
    cluster.seconds += elapsed
    if elapsed == 10.0:
        run(producer.flush())
        assert producer.acknowledged == 2
    else:
        with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
            run(producer.flush())


def test_only_a_patient_producer_waits_for_a_broker_that_is_not_there_yet() -> None:
    for patient in (False, True):
        cluster = HandCluster()
        producer = Producer(cluster.client(patient=patient, retry_seconds=10.0))
        run(producer.partitions("t"))
        producer.client.close()
        cluster.unreachable = True

        async def story(producer: Producer = producer) -> None:
            await producer.send("t", b"v", timestamp=1, partition=0)
            await producer.flush()

        if not patient:
            with pytest.raises(CannotConnect):
                run(story())
            assert cluster.slept == []
            continue
        cluster.comes_after = cluster.seconds + 3
        run(story())
        assert producer.acknowledged == 1
        assert 3 <= sum(cluster.slept) < 5
