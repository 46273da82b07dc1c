"""Requests of one connection take effect in the order in which they were sent.

Kafka reads a connection no further until the answer to its last request has been sent. Frames that
lie in one read here are looked at one after the other, some of them by a thread or by a task first.
"""

import socket
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.record.batch import Record, build
from headrace.testing import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import parse_response
from tests.support.client.client import FrameClient
from tests.support.net.links import connect, receive

K = ApiKey
NOW = 1_780_000_000_000
MINUTE = timedelta(minutes=1)
part = FrameClient.part


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    """One to which nobody has spoken: whatever comes first, its code is not there yet."""
    with BrokerThread(memory=True) as one:
        yield one


@pytest.fixture
def pipe(broker: BrokerThread) -> Iterator["Pipe"]:
    with connect(broker) as link:
        yield Pipe(link)


class Pipe:
    """One connection whose requests are sent by one call and then answered."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._asked: list[tuple[ApiKey, int]] = []
        self._frames = b""
        self._correlation_id = 0

    def add(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        """One more request."""
        self._correlation_id += 1
        request = kio_codec.request_type(key, version)(**fields)
        self._frames += kio_codec.encode_request(request, self._correlation_id, "test")
        self._asked.append((key, version))

    def answers(self) -> list[Any]:
        """Send what was added; the answers, which came in that order."""
        expected = self._correlation_id - len(self._asked)
        asked, self._asked = self._asked, []
        frames, self._frames = self._frames, b""
        self._link.sendall(frames)
        found = []
        for key, version in asked:
            expected += 1
            frame = memoryview(receive(self._link, *struct.unpack(">i", receive(self._link, 4))))
            correlation_id, at = parse_response(frame, key, version)
            assert correlation_id == expected, f"in the place of {key.name}'s answer"
            found.append(kio_codec.decode_response(key, version, frame[at:]))
        return found

    def create(self, topic: str, version: int = 5) -> None:
        key = K.CREATE_TOPICS
        one = part(
            key, version, "CreatableTopic",
            name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=(),
        )  # fmt: skip
        self.add(key, version, topics=(one,), timeout=MINUTE, validate_only=False)

    def produce(self, topic: str, transactional_id: str | None = None, **producer: Any) -> None:
        key, version = K.PRODUCE, 9
        data = build([Record(0, NOW, None, b"v", ())], **producer)
        one = part(key, version, "PartitionProduceData", index=0, records=data)
        asked = part(key, version, "TopicProduceData", name=topic, partition_data=(one,))
        self.add(
            key, version,
            transactional_id=transactional_id, acks=-1, timeout=MINUTE, topic_data=(asked,),
        )  # fmt: skip

    def list_offsets(self, topic: str) -> None:
        key, version = K.LIST_OFFSETS, 7
        one = part(key, version, "ListOffsetsPartition", partition_index=0, timestamp=-1)
        asked = part(key, version, "ListOffsetsTopic", name=topic, partitions=(one,))
        self.add(key, version, replica_id=-1, isolation_level=0, topics=(asked,))


def produced(answer: Any) -> str:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code).name


def test_answers_leave_in_order_where_a_cold_request_stands_between_batches(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.add(K.LIST_GROUPS, 4, states_filter=())
    pipe.answers()
    for _ in range(3):
        pipe.produce("t")
        pipe.add(K.LIST_GROUPS, 4, states_filter=())
        for _ in range(3):
            pipe.produce("t")
    pipe.answers()


def test_a_topic_is_there_for_the_batch_sent_behind_its_creation(pipe: Pipe) -> None:
    for topic in ("first", "second"):
        pipe.create(topic)
        pipe.produce(topic)
        pipe.produce(topic)
        _, *batches = pipe.answers()
        assert [produced(one) for one in batches] == ["NONE", "NONE"]


def test_a_topic_is_gone_for_what_is_sent_behind_its_deletion(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.add(K.DELETE_TOPICS, 5, topic_names=("t",), timeout=MINUTE)
    pipe.produce("t")
    *_, batch = pipe.answers()
    assert produced(batch) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_topic_made_by_asking_for_it_is_there_for_the_batch_behind(pipe: Pipe) -> None:
    topic = part(K.METADATA, 9, "MetadataRequestTopic", name="asked-for")
    pipe.add(
        K.METADATA, 9, topics=(topic,), allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    pipe.produce("asked-for")
    _, batch = pipe.answers()
    assert produced(batch) == "NONE"


def test_a_setting_is_shown_to_the_question_behind_its_change(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.answers()
    key = K.INCREMENTAL_ALTER_CONFIGS
    for value in ("70000", "80000"):
        change = part(key, 1, "AlterableConfig", name="segment.ms", config_operation=0, value=value)
        resource = part(
            key, 1, "AlterConfigsResource", resource_type=2, resource_name="t", configs=(change,)
        )
        pipe.add(key, 1, resources=(resource,), validate_only=False)
        asked = part(
            K.DESCRIBE_CONFIGS, 4, "DescribeConfigsResource",
            resource_type=2, resource_name="t", configuration_keys=("segment.ms",),
        )  # fmt: skip
        pipe.add(K.DESCRIBE_CONFIGS, 4, resources=(asked,), include_synonyms=False)
        _, described = pipe.answers()
        assert described.results[0].configs[0].value == value


def test_a_transaction_has_the_partition_for_the_batch_sent_behind_its_adding(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.add(K.FIND_COORDINATOR, 3, key="tx", key_type=1)
    pipe.answers()
    sequence = 0
    for _ in range(2):
        pipe.add(
            K.INIT_PRODUCER_ID, 4, transactional_id="tx", transaction_timeout=MINUTE,
            producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        (who,) = pipe.answers()
        assert ErrorCode(who.error_code) is ErrorCode.NONE
        key = K.ADD_PARTITIONS_TO_TXN
        topic = part(key, 3, "AddPartitionsToTxnTopic", name="t", partitions=(0,))
        pipe.add(
            key, 3, v3_and_below_transactional_id="tx", v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.producer_epoch, v3_and_below_topics=(topic,),
        )  # fmt: skip
        pipe.produce(
            "t", "tx", producer_id=who.producer_id, producer_epoch=who.producer_epoch,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        _, batch = pipe.answers()
        assert produced(batch) == "NONE"


def test_records_are_deleted_up_to_what_the_batch_before_has_written(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.answers()
    for written in (3, 6):
        for _ in range(3):
            pipe.produce("t")
        key = K.DELETE_RECORDS
        one = part(key, 2, "DeleteRecordsPartition", partition_index=0, offset=-1)
        asked = part(key, 2, "DeleteRecordsTopic", name="t", partitions=(one,))
        pipe.add(key, 2, topics=(asked,), timeout=MINUTE)
        *_, deleted = pipe.answers()
        assert deleted.topics[0].partitions[0].low_watermark == written


def test_offsets_are_told_as_the_commit_before_has_set_them(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.add(K.FIND_COORDINATOR, 3, key="g", key_type=0)
    pipe.answers()
    for offset in (5, 6, 7):
        one = part(
            K.OFFSET_COMMIT, 8, "OffsetCommitRequestPartition",
            partition_index=0, committed_offset=offset, committed_metadata="",
        )  # fmt: skip
        topic = part(K.OFFSET_COMMIT, 8, "OffsetCommitRequestTopic", name="t", partitions=(one,))
        pipe.add(
            K.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, member_id="",
            topics=(topic,),
        )  # fmt: skip
        asked = part(K.OFFSET_FETCH, 7, "OffsetFetchRequestTopic", name="t", partition_indexes=(0,))
        pipe.add(K.OFFSET_FETCH, 7, group_id="g", topics=(asked,), require_stable=False)
        committed, told = pipe.answers()
        assert committed.topics[0].partitions[0].error_code == 0
        assert told.topics[0].partitions[0].committed_offset == offset


def test_the_end_is_told_as_the_batch_before_has_set_it(pipe: Pipe) -> None:
    pipe.create("t")
    pipe.answers()
    for end in (1, 2, 3):
        pipe.produce("t")
        pipe.list_offsets("t")
        _, told = pipe.answers()
        assert told.topics[0].partitions[0].offset == end
