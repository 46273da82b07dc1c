"""Produce requests answered in runs, against the same requests answered one by one.

Answers, log and index files, producers' states and counters are the same, byte for byte.
"""

import struct
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.produce import produce as produce_api
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ErrorCode
from headrace.record.batch import Record, build, parse_header
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import produce
from tests.support.net.served import served
from tests.support.processes import runs
from tests.support.processes.broker import Room, play, room
from tests.support.processes.runs import Outcome, serve

NOW = 1_780_000_000_000
TOPICS = {
    "plain": {},
    "rolls": {"segment.bytes": "1500", "index.interval.bytes": "300"},
    "fine": {"index.interval.bytes": "0", "segment.index.bytes": "96"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "narrow": {"max.message.bytes": "200", "message.timestamp.before.max.ms": "1000"},
    "replicated": {"min.insync.replicas": "2"},
    "keyed": {"cleanup.policy": "compact"},
    "packed": {"compression.type": "gzip"},
}
UNKNOWN = "nowhere"
PARTITIONS = 3
OPEN = 3
"""A producer with a transaction open."""
_BYTES_OUT = 2
"""Where an outcome's state has the size of its answers."""


@dataclass
class Batch:
    """One request's batch; `producer` -1: not idempotent."""

    producer: int = -1
    step: int = 0
    """What the sequence is off the next one by: -n the nth retry, +n a gap."""
    count: int = 1
    value: int = 0
    age_ms: int = 0
    damage: int = 0
    """Which byte of the batch is changed, 0: none."""
    partition: int = 0
    transactional: bool = False
    """In a transaction; `OPEN` has one open in every partition of `plain`."""


@dataclass
class Stretch:
    """Requests of one shape."""

    topic: str
    version: int
    acks: int
    client: str
    batches: list[Batch]
    transactional_id: str | None = None


_partition = st.sampled_from((0, 0, 0, 1, 2))
_usual = st.builds(Batch, count=st.integers(1, 3), value=st.integers(0, 90), partition=_partition)
_odd = st.builds(
    Batch,
    producer=st.sampled_from((-1, 1, 2)),
    step=st.sampled_from((0, 0, 0, -1, -2, 1)),
    count=st.integers(1, 3),
    value=st.sampled_from((0, 10, 100, 200)),
    age_ms=st.sampled_from((0, 0, 0, 5000)),
    damage=st.sampled_from((0, 0, 0, 1, 16, 20, 40, 62)),
    partition=st.sampled_from((0, 0, 1, 2, PARTITIONS, -1)),
)
_idempotent = st.builds(
    Batch, producer=st.sampled_from((1, 1, 1, 2)), step=st.just(0), partition=_partition
)
_transactional = st.builds(
    Batch,
    producer=st.sampled_from((OPEN, OPEN, OPEN, 1)),
    step=st.sampled_from((0, 0, 0, -1, 1)),
    value=st.integers(0, 90),
    partition=_partition,
    transactional=st.sampled_from((True, True, True, False)),
)
_stretches = st.lists(
    st.builds(
        Stretch,
        topic=st.sampled_from([*TOPICS, "plain", "rolls", UNKNOWN]),
        version=st.integers(3, 13),
        acks=st.sampled_from((1, 1, -1, -1, 0, 2)),
        client=st.sampled_from(("", "a", "client")),
        batches=st.lists(st.one_of(_usual, _usual, _idempotent, _odd), min_size=1, max_size=12),
    )
    | st.builds(
        Stretch,
        topic=st.sampled_from(("plain", "plain", "plain", "rolls")),
        version=st.integers(3, 13),
        acks=st.sampled_from((-1, -1, 1)),
        client=st.sampled_from(("a", "client")),
        batches=st.lists(_transactional, min_size=1, max_size=12),
        transactional_id=st.sampled_from(("tx", "tx", None)),
    ),
    max_size=6,
)


class Stream:
    """Frames as a client would send them."""

    def __init__(self, topic_ids: dict[str, bytes]) -> None:
        self.topic_ids = topic_ids
        self.sequences: dict[tuple[str, int, int], int] = {}
        self.frames: list[bytes] = []

    def add(self, stretch: Stretch) -> None:
        for batch in stretch.batches:
            data = [produce.PartitionData(batch.partition, self.records(stretch.topic, batch))]
            topic_id = self.topic_ids.get(stretch.topic, bytes(15) + b"\1")
            request = produce.ProduceRequest(
                stretch.transactional_id,
                stretch.acks,
                10_000,
                [produce.TopicData(stretch.topic, topic_id, data)],
            )
            body = produce.encode_request(stretch.version, request)
            head = request_head(
                ApiKey.PRODUCE, stretch.version, len(self.frames), stretch.client, len(body)
            )
            self.frames.append(head + body)

    def records(self, topic: str, batch: Batch) -> bytes:
        producer: dict[str, Any] = {}
        if batch.producer >= 0:
            who = topic, batch.partition, batch.producer
            next_one = self.sequences.get(who, 0)
            sequence = max(0, next_one + batch.step)
            if batch.step == 0:
                self.sequences[who] = next_one + batch.count
            producer = {
                "producer_id": batch.producer, "producer_epoch": 0, "base_sequence": sequence,
                "transactional": batch.transactional,
            }  # fmt: skip
        record = Record(0, NOW - batch.age_ms, None, bytes(batch.value), ())
        whole = bytearray(build([record] * batch.count, **producer))
        if batch.damage:
            whole[batch.damage] ^= 1
        return bytes(whole)


async def play_one(stretches: list[Stretch], in_runs: bool, fault: bool = False) -> Outcome:
    disk = SimDisk()
    with tempfile.TemporaryDirectory() as place:
        async with room(Path(place), disk, kill=True) as here:
            wanted = [
                NewTopic(name, PARTITIONS, config=configs) for name, configs in TOPICS.items()
            ]
            await here.controller.create_topics(wanted)
            topics = here.broker.image.topics
            ids = {name: topics[name].topic_id for name in TOPICS}
            stream = Stream(ids)
            if any(stretch.transactional_id for stretch in stretches):
                for index in range(PARTITIONS):
                    open_transaction(here, index)
                    stream.sequences["plain", index, OPEN] = 1
            for stretch in stretches:
                stream.add(stretch)
            if fault:
                disk.fail_writes(at=1)  # the log's first batch is the ordinary way's
            sent = b"".join(stream.frames)
            outcome = await serve(here, served(produce_api), sent, ids, in_runs)
            stats = here.broker.metrics.api(ApiKey.PRODUCE)
            outcome.state += [
                stats.requests, stats.bytes_in, stats.bytes_out, stats.errors,
                stats.latency.count, here.broker.metrics.records_in,
            ]  # fmt: skip
            for name, index in product(TOPICS, range(PARTITIONS)):
                partition = here.broker.partition(name, index)
                log = partition.log
                outcome.state += [name, index, partition.high_watermark, log.end_offset]
                outcome.state.append(log.producers.kept.at_rest(100))
                for segment in log.segments:
                    segment.write_out_indexes()
                    outcome.state.append([segment.at_rest(), segment.bytes_since_index])
                where = log.directory
                for file in disk.list(where):
                    if not file.startswith("partition.metadata"):
                        opened = disk.open(f"{where}/{file}", writable=False)
                        outcome.state.append((file, opened.read(0, 1 << 20)))
            return outcome


def open_transaction(here: Room, index: int) -> None:
    """The first batch of a transaction, which its coordinator has been asked about."""
    batch = build(
        [Record(0, NOW, None, b"", ())], producer_id=OPEN, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    view = memoryview(bytearray(batch))
    here.broker.partition("plain", index).append(
        view, parse_header(view), now_ms=NOW, begins=Begins.VERIFIED
    )


async def same(stretches: list[Stretch], fault: bool = False) -> Outcome:
    return await runs.same(lambda in_runs: play_one(stretches, in_runs, fault))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(_stretches)
def test_a_stream_leads_to_the_same_in_runs_as_one_by_one(stretches: list[Stretch]) -> None:
    play(_checked(stretches))


async def _checked(stretches: list[Stretch]) -> None:
    await same(stretches)


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("producer", [-1, 1])
def test_like_requests_are_one_run(version: int, acks: int, producer: int) -> None:
    async def story() -> None:
        batches = [Batch(producer, value=20 + at % 3) for at in range(40)]
        # The first batch of a log is the ordinary way's.
        first = Stretch("plain", version, acks, "c", [Batch()])
        outcome = await same([first, Stretch("plain", version, acks, "c", batches)])
        assert outcome.runs == 1

    play(story())


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", range(3, 14))
def test_like_requests_for_partitions_in_turn_are_one_run(version: int, acks: int) -> None:
    async def story() -> None:
        batches = [Batch(1, value=20, partition=at * at % PARTITIONS) for at in range(40)]
        first = [Batch(1, partition=at) for at in range(PARTITIONS)]
        outcome = await same([Stretch("plain", version, acks, "c", [*first, *batches])])
        assert outcome.runs == 1

    play(story())


@pytest.mark.parametrize("version", range(3, 14))
def test_like_requests_of_an_open_transaction_are_one_run(version: int) -> None:
    async def story() -> None:
        batches = [
            Batch(OPEN, value=20, partition=at % PARTITIONS, transactional=True) for at in range(40)
        ]
        outcome = await same([Stretch("plain", version, -1, "c", batches, "tx")])
        assert outcome.runs == 1

    play(story())


@pytest.mark.parametrize("version", [7, 11, 13])
def test_a_run_ends_before_a_batch_that_would_open_a_transaction(version: int) -> None:
    async def story() -> None:
        batches = [Batch(OPEN, transactional=True) for _ in range(20)]
        batches[10] = Batch(1, transactional=True)
        outcome = await same([Stretch("plain", version, -1, "c", batches, "tx")])
        assert outcome.runs == 2

    play(story())


@pytest.mark.parametrize("index", [-1, PARTITIONS])
def test_a_run_ends_before_a_partition_that_is_not_there(index: int) -> None:
    async def story() -> None:
        batches = [Batch(1, partition=at % PARTITIONS) for at in range(20)]
        batches[10] = Batch(partition=index)
        outcome = await same([Stretch("plain", 10, -1, "c", batches)])
        code = struct.pack(">h", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert outcome.runs == 2
        assert code in outcome.answers

    play(story())


@pytest.mark.parametrize(
    "odd",
    [Batch(damage=40), Batch(1, step=5), Batch(1, step=-1), Batch(2), Batch(age_ms=-(10**10))],
)
def test_a_run_ends_before_what_is_not_like_it(odd: Batch) -> None:
    async def story() -> None:
        batches = [Batch(1) for _ in range(20)]
        batches[10] = odd
        outcome = await same([Stretch("plain", 10, -1, "c", batches)])
        assert outcome.runs == 2

    play(story())


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("acks", [1, -1])
def test_topics_settings_hold_for_runs(topic: str, acks: int) -> None:
    async def story() -> None:
        batches = [Batch(1, count=1 + at % 3, value=at) for at in range(60)]
        spread = [Batch(1, value=at, partition=at % PARTITIONS) for at in range(60)]
        await same([Stretch(topic, 10, acks, "c", [*batches, *spread])])

    play(story())


def test_a_disk_that_fails_refuses_every_request_of_a_run() -> None:
    async def story() -> None:
        outcome = await same([Stretch("plain", 10, 1, "c", [Batch(value=9)] * 30)], fault=True)
        code = struct.pack(">h", ErrorCode.KAFKA_STORAGE_ERROR)
        assert outcome.answers.count(code) >= 29

    play(story())


def test_a_disk_that_fails_refuses_every_request_of_a_run_for_several_partitions() -> None:
    async def story() -> None:
        batches = [Batch(value=9, partition=at % PARTITIONS) for at in range(30)]
        stretches = [Stretch("plain", 10, 1, "c", batches)]
        alone = await play_one(stretches, in_runs=False, fault=True)
        together = await play_one(stretches, in_runs=True, fault=True)
        code = struct.pack(">h", ErrorCode.KAFKA_STORAGE_ERROR)
        assert together.answers.count(code) == alone.answers.count(code) == 30
        # The first one says why, unless a run has met it before.
        del alone.state[_BYTES_OUT], together.state[_BYTES_OUT]
        assert together.state == alone.state

    play(story())


def test_batches_that_could_not_be_written_are_as_they_were(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SimDisk()
        async with room(tmp_path, disk, kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 1)])
            here.write("t")
            partition = here.broker.partition("t", 0)
            sent = bytes(build([Record(0, NOW, None, b"v", ())]))
            views = [memoryview(bytearray(sent)) for _ in range(3)]
            headers = [parse_header(view) for view in views]
            disk.fail_writes()
            assert partition.append_run(views, headers, now_ms=NOW) == 0
            assert [parse_header(view).base_offset for view in views] == [0, 0, 0]
            assert partition.log.end_offset == 1

    play(story())
