"""What a coordinator appends in a producer's transaction is the present producer's."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import Offset
from headrace.model.protocols import ROCKETMQ_TOPICS
from headrace.record.batch import Record, build, build_pairs, parse_header
from tests.unit.broker import test_partition
from tests.unit.broker.test_flush_intervals import Place


@pytest.mark.parametrize("producer_id", [0, 7])
def test_an_outdated_producer_writes_nothing_the_first_of_all_ids_included(
    producer_id: int,
) -> None:
    place = Place()

    def append(epoch: int) -> None:
        batch = build_pairs([(b"k", b"v")], 0, producer_id=producer_id, producer_epoch=epoch)
        place.partition.append_internal(batch)

    append(5)
    with pytest.raises(ApiError) as refused:
        append(4)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    append(5)
    assert place.log.end_offset == 2


@pytest.mark.parametrize("topic", sorted(ROCKETMQ_TOPICS.closed))
def test_a_closed_topic_is_read_and_written_by_its_broker_alone(topic: str) -> None:
    place = test_partition.Place(topic, LogConfig(cleanup_policy=frozenset({"compact"})))
    partition, content = (
        place.partition,
        bytearray(build([Record(0, test_partition.NOW, b"k", b"v")])),
    )
    header = parse_header(content)
    with pytest.raises(ApiError) as refused:
        partition.append(memoryview(content), header, now_ms=test_partition.NOW)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert partition.append_run([memoryview(content)], [header], now_ms=test_partition.NOW) == 0
    partition.append_internal(content, now_ms=test_partition.NOW)
    place.flush()
    for committed in (False, True):
        for read in (partition.read, partition.serve):
            with pytest.raises(ApiError) as refused:
                read(Offset(0), 1 << 20, read_committed=committed)
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert partition.log.read_from_disk(Offset(0), 1 << 20, below=partition.high_watermark).data
