"""Transactions as frames: every version of every API, against a whole broker but its sockets."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.cluster.topic_creation import NewTopic
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headrace.record.batch import Record, build, iterate, records
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from tests.support.broker import Room, play, room
from tests.support.client import FrameClient

K = ApiKey
NOW = 1_780_000_000_000
MINUTE = timedelta(minutes=1)
TOPIC, ID, GROUP = "t", "tx", "g"


def name_of(code: object) -> str:
    return ErrorCode(int(code)).name  # type: ignore[call-overload]


class Producer:
    """A transactional producer of single records, in the versions it is told."""

    def __init__(self, here: Room) -> None:
        self.here = here
        self.client = FrameClient(here)
        self.producer_id, self.epoch = -1, -1
        self.sequence: dict[int, int] = {}

    @property
    def who(self) -> dict[str, Any]:
        return {
            "transactional_id": ID,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def init(self, version: int = 4, **fields: Any) -> str:
        given = {"transactional_id": ID, "transaction_timeout": MINUTE, **fields}
        answer = await self.client.ask(K.INIT_PRODUCER_ID, version, **given)
        if not int(answer.error_code):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = {}
        return name_of(answer.error_code)

    async def add(self, *partitions: int, version: int = 3, verify: bool = False) -> list[str]:
        key = K.ADD_PARTITIONS_TO_TXN
        topics = (
            self.client.part(
                key, version, "AddPartitionsToTxnTopic", name=TOPIC, partitions=partitions
            ),
        )
        fields: dict[str, Any] = {**self.who, "topics": topics}
        if version >= 4:
            one = self.client.part(
                key, version, "AddPartitionsToTxnTransaction", verify_only=verify, **fields
            )
            answer = await self.client.ask(key, version, transactions=(one,))
            (result,) = answer.results_by_transaction
            (found,) = result.topic_results
        else:
            old = {f"v3_and_below_{name}": value for name, value in fields.items()}
            answer = await self.client.ask(key, version, **old)
            (found,) = answer.results_by_topic_v3_and_below
        return [name_of(one.partition_error_code) for one in found.results_by_partition]

    async def write(self, value: bytes, partition: int = 0, version: int = 9, **given: Any) -> str:
        sequence = self.sequence.get(partition, 0)
        batch: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
        }
        data = build([Record(0, NOW, None, value, ())], **(batch | given))
        key = K.PRODUCE
        part = self.client.part(key, version, "PartitionProduceData", index=partition, records=data)
        topic = self.client.part(
            key, version, "TopicProduceData", name=TOPIC, partition_data=(part,)
        )
        answer = await self.client.ask(
            key,
            version,
            transactional_id=ID,
            acks=-1,
            timeout=MINUTE,
            topic_data=(topic,),
        )
        code = answer.responses[0].partition_responses[0].error_code
        if not int(code):
            self.sequence[partition] = sequence + 1
        return name_of(code)

    async def end(self, commit: bool = True, version: int = 3) -> str:
        answer = await self.client.ask(K.END_TXN, version, committed=commit, **self.who)
        if version >= 5 and not int(answer.error_code):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = {}
        return name_of(answer.error_code)

    async def add_offsets(self, version: int = 3) -> str:
        answer = await self.client.ask(K.ADD_OFFSETS_TO_TXN, version, group_id=GROUP, **self.who)
        return name_of(answer.error_code)

    async def commit_offset(self, offset: int, version: int = 3, partition: int = 0) -> str:
        key = K.TXN_OFFSET_COMMIT
        part = self.client.part(
            key,
            version,
            "TxnOffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_metadata="",
        )
        topic = self.client.part(
            key, version, "TxnOffsetCommitRequestTopic", name=TOPIC, partitions=(part,)
        )
        answer = await self.client.ask(key, version, group_id=GROUP, topics=(topic,), **self.who)
        return name_of(answer.topics[0].partitions[0].error_code)

    async def read(self, partition: int = 0, committed: bool = True) -> list[bytes | None]:
        """What a reader makes of one Fetch: aborted transactions left out."""
        key, version = K.FETCH, 12
        part = self.client.part(
            key,
            version,
            "FetchPartition",
            partition=partition,
            fetch_offset=0,
            partition_max_bytes=1 << 20,
        )
        topic = self.client.part(key, version, "FetchTopic", topic=TOPIC, partitions=(part,))
        answer = await self.client.ask(
            key,
            version,
            max_wait=timedelta(0),
            min_bytes=0,
            isolation_level=int(committed),
            topics=(topic,),
            forgotten_topics_data=(),
        )
        found = answer.responses[0].partitions[0]
        return list(_values(bytes(found.records or b""), found.aborted_transactions or ()))

    async def stable_end(self, version: int = 5) -> int:
        key = K.LIST_OFFSETS
        part = self.client.part(
            key, version, "ListOffsetsPartition", partition_index=0, timestamp=-1
        )
        topic = self.client.part(key, version, "ListOffsetsTopic", name=TOPIC, partitions=(part,))
        answer = await self.client.ask(
            key, version, replica_id=-1, isolation_level=1, topics=(topic,)
        )
        return int(answer.topics[0].partitions[0].offset)


def _values(data: bytes, aborted: Any) -> Any:
    left = sorted(((one.first_offset, one.producer_id) for one in aborted), reverse=True)
    skipped: set[int] = set()
    for at, header in iterate(data):
        while left and left[-1][0] <= header.base_offset:
            skipped.add(left.pop()[1])
        if header.attributes & 0x20:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            yield from (one.value for one in records(data[at:]))


Story = Callable[[Producer], Coroutine[Any, Any, None]]


def tell(place: Path, story: Story) -> None:
    async def run() -> None:
        async with room(place, SimDisk()) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 3)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            await story(Producer(here))

    play(run())


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_commits_in_every_version(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        assert await one.init(min(version, 5)) == "NONE"
        assert await one.add(0, 1, version=version) == ["NONE", "NONE"]
        assert await one.write(b"a", version=3 + version) == "NONE"
        assert await one.write(b"b", 1) == "NONE"
        assert await one.read() == []
        assert await one.read(committed=False) == [b"a"]
        assert await one.stable_end() == 0
        assert await one.end(version=version) == "NONE"
        assert await one.add(0, version=version) == ["NONE"]  # so the markers are there
        assert (await one.read(), await one.read(1)) == ([b"a"], [b"b"])
        assert await one.stable_end() == 2

    tell(tmp_path, story)


def test_an_aborted_transaction_is_left_out_for_readers_of_committed_data(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            assert await one.add(0) == ["NONE"]
            assert await one.write(value) == "NONE"
            assert await one.end(commit) == "NONE"
        await one.add(1)
        assert await one.read() == [b"a", b"c"]
        assert await one.read(committed=False) == [b"a", b"b", b"c"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [12])
def test_from_produce_v12_on_partitions_join_by_themselves(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        epochs = []
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            assert await one.write(value, version=version) == "NONE"
            assert await one.write(value, version=version) == "NONE"
            assert await one.write(value, 1, version=version) == "NONE"
            assert await one.end(commit, version=5) == "NONE"
            epochs.append(one.epoch)
        assert epochs == [1, 2, 3]
        assert await one.write(b"d", 2, version=version) == "NONE"
        assert await one.read() == [b"a", b"a", b"c", b"c"]
        assert await one.read(1) == [b"a", b"c"]

    tell(tmp_path, story)


def test_a_first_batch_of_version_2_begins_with_sequence_0(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        refused = await one.write(b"a", version=12, base_sequence=5)
        assert refused == "OUT_OF_ORDER_SEQUENCE_NUMBER"

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")],
)
def test_a_batch_outside_of_a_transaction_is_refused(
    tmp_path: Path, version: int, code: str
) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        assert await one.write(b"a", version=version) == code
        await one.add(1)
        assert await one.write(b"a", version=version) == code
        assert await one.write(b"a", 1, version=version) == "NONE"
        assert await one.write(b"x", 1, transactional=False) == "INVALID_TXN_STATE"

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("version", "code"), [(9, "INVALID_PRODUCER_EPOCH"), (12, "INVALID_PRODUCER_EPOCH")]
)
def test_a_batch_of_a_fenced_producer_is_refused(tmp_path: Path, version: int, code: str) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        assert await one.write(b"a") == "NONE"
        other = Producer(one.here)
        assert await other.init() == "NONE"
        assert await one.write(b"b", version=version) == code
        assert await one.write(b"b", 1, version=version) == code

    tell(tmp_path, story)


@pytest.mark.parametrize("version", range(6))
def test_fencing_is_told_in_every_versions_words(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await Producer(one.here).init()
        told = "INVALID_PRODUCER_EPOCH" if version < 2 else "PRODUCER_FENCED"
        assert await one.add(0, version=min(version, 5)) == [told]
        assert await one.end(version=version) == told
        assert await one.add_offsets(min(version, 4)) == told

    tell(tmp_path, story)


def test_one_partition_that_does_not_exist_keeps_the_others_out(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        assert await one.add(0, 9) == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_may_ask_whether_a_partition_is_in(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        no = "TRANSACTION_ABORTABLE" if version == 5 else "INVALID_TXN_STATE"
        assert await one.add(0, 1, version=version, verify=True) == ["NONE", no]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_if_their_transaction_commits(
    tmp_path: Path, version: int, commit: bool
) -> None:
    async def story(one: Producer) -> None:
        groups = one.here.coordinators.groups
        await one.init()
        if version < 5:
            assert await one.commit_offset(5, version) == "INVALID_TXN_STATE"
            assert await one.add_offsets() == "NONE"
        assert await one.commit_offset(5, version) == "NONE"
        assert await one.commit_offset(5, version, 77) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert groups.offset(GROUP, TOPIC, 0) is None
        assert groups.shard(GROUP).offsets.is_unstable((GROUP, TOPIC, 0))
        assert await one.end(commit) == "NONE"
        await one.add(0)
        found = groups.offset(GROUP, TOPIC, 0)
        assert (found is not None and found.offset == 5) is commit

    tell(tmp_path, story)


def test_offsets_of_a_fenced_producer_are_refused(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add_offsets()
        await Producer(one.here).init()
        assert await one.commit_offset(5) == "PRODUCER_FENCED"

    tell(tmp_path, story)


def test_a_coordinator_that_is_not_here_is_told(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        led = one.here.coordinators.transactions.led
        led.resign(led.partition_for(ID))
        assert await one.init() == "NOT_COORDINATOR"
        assert await one.add(0) == ["NOT_COORDINATOR"]
        assert await one.end() == "NOT_COORDINATOR"
        assert await one.write(b"a") == "NOT_ENOUGH_REPLICAS"

    tell(tmp_path, story)


def test_transactions_are_described_and_listed(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0, 2)
        answer = await one.client.ask(
            K.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(ID, "nobody", "")
        )
        found, unknown, empty = answer.transaction_states
        assert name_of(unknown.error_code) == "TRANSACTIONAL_ID_NOT_FOUND"
        assert name_of(empty.error_code) == "INVALID_REQUEST"
        assert (found.transaction_state, found.producer_id) == ("Ongoing", one.producer_id)
        assert found.transaction_timeout == MINUTE
        assert [(two.topic, two.partitions) for two in found.topics] == [(TOPIC, (0, 2))]
        for version in (0, 1, 2):
            listed = await one.client.ask(
                K.LIST_TRANSACTIONS,
                version,
                state_filters=("Ongoing", "Odd"),
                producer_id_filters=(),
            )
            assert [two.transactional_id for two in listed.transaction_states] == [ID]
            assert listed.unknown_state_filters == ("Odd",)
        for pattern, found_ids in (("t.", [ID]), ("t", []), ("", [ID])):
            listed = await one.client.ask(K.LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern)
            assert [two.transactional_id for two in listed.transaction_states] == found_ids
        listed = await one.client.ask(K.LIST_TRANSACTIONS, 2, transactional_id_pattern="(")
        assert name_of(listed.error_code) == "INVALID_REGULAR_EXPRESSION"

    tell(tmp_path, story)


async def producers(one: Producer, partition: int) -> list[Any]:
    topic = one.client.part(
        K.DESCRIBE_PRODUCERS, 0, "TopicRequest", name=TOPIC, partition_indexes=(partition, 9)
    )
    answer = await one.client.ask(K.DESCRIBE_PRODUCERS, 0, topics=(topic,))
    found, missing = answer.topics[0].partitions
    assert name_of(missing.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
    return list(found.active_producers)


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_found_and_ended(tmp_path: Path, version: int) -> None:
    async def story(one: Producer) -> None:
        await one.init()
        await one.add(0)
        await one.write(b"hangs")
        led = one.here.coordinators.transactions.led
        led.of(ID).transactions.clear()  # what a coordinator that lost its log would know
        (found,) = await producers(one, 0)
        assert (found.producer_id, found.current_txn_start_offset) == (one.producer_id, 0)
        key = K.WRITE_TXN_MARKERS
        topic = one.client.part(
            key, version, "WritableTxnMarkerTopic", name=TOPIC, partition_indexes=(0, 9)
        )
        marker = one.client.part(
            key,
            version,
            "WritableTxnMarker",
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=max(found.coordinator_epoch, 0),
            transaction_version=0,
        )
        answer = await one.client.ask(key, version, markers=(marker,))
        results = answer.markers[0].topics[0].partitions
        assert [name_of(two.error_code) for two in results] == [
            "NONE",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        (found,) = await producers(one, 0)
        assert found.current_txn_start_offset == -1
        assert await one.stable_end() == 2
        assert await one.read() == []

    tell(tmp_path, story)


def test_transaction_version_2_is_on(tmp_path: Path) -> None:
    async def story(one: Producer) -> None:
        answer = await one.client.ask(
            K.API_VERSIONS, 4, client_software_name="test", client_software_version="1"
        )
        levels = {found.name: found.max_version_level for found in answer.finalized_features}
        assert levels["transaction.version"] == 2

    tell(tmp_path, story)


PHASES: tuple[str, ...] = ("begun", "added", "written", "offsets", "decided", "ended")


async def live(one: Producer, until: str, version: int) -> None:
    """A transaction of two partitions and an offset, up to that phase."""
    assert await one.init() == "NONE"
    if until == "begun":
        return
    if version < 12:
        assert await one.add(0, 1) == ["NONE", "NONE"]
        assert await one.add_offsets() == "NONE"
    if until == "added":
        return
    for partition in (0, 1):
        assert await one.write(b"v", partition, version) == "NONE"
    if until == "written":
        return
    assert await one.commit_offset(5, 5 if version >= 12 else 3) == "NONE"
    if until == "offsets":
        return
    broker = one.here.broker
    if until == "decided":
        # The decision is written, and then nothing more: the partitions take no marker.
        for (topic, _), found in broker.partitions.items():
            if topic in (TOPIC, OFFSETS_TOPIC):
                found.close(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await one.end(version=5 if version >= 12 else 3) == "NONE"


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_every_phase_leaves_a_transaction_whole(
    tmp_path: Path, phase: str, version: int
) -> None:
    disk = SimDisk()
    decided = phase in ("decided", "ended")

    async def before() -> None:
        async with room(tmp_path, disk, kill=True) as here:
            await here.controller.create_topics([NewTopic(TOPIC, 3)])
            await here.controller.ensure_internal_topic(TRANSACTIONS_TOPIC)
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            await live(Producer(here), phase, version)

    async def after() -> None:
        async with room(tmp_path, disk) as here:
            one = Producer(here)
            assert await one.init() == "NONE"  # whatever was open is aborted by now
            there = [b"v"] if decided else []
            assert (await one.read(), await one.read(1)) == (there, there)
            found = here.coordinators.groups.offset(GROUP, TOPIC, 0)
            assert (found is not None) is decided
            assert not here.coordinators.groups.shard(GROUP).offsets.is_unstable((GROUP, TOPIC, 0))
            for partition in (0, 1):
                log = here.broker.partition(TOPIC, partition).log
                assert log.first_unstable_offset() is None
            assert await one.add(0) == ["NONE"]
            assert await one.write(b"next") == "NONE"
            assert await one.end() == "NONE"
            await one.add(0)
            assert await one.read() == [*there, b"next"]

    play(before())
    play(after())
