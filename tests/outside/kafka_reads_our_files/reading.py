"""What a stock client (librdkafka) reads from a broker: everything there is to compare."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.outside.kafka_reads_our_files.writing import GROUPS, NEWER_GROUP

T = TypeVar("T")
_SECONDS_MAX = 90
QUIET = {"log_level": 0}
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
Places = list[tuple[str, int]]
Record = tuple[Any, ...]


@dataclass
class Picture:
    """All that a client can know of some partitions."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    committed_records: dict[str, list[Record]] = field(default_factory=dict)
    watermarks: dict[str, tuple[int, int]] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    commits: dict[str, tuple[int, str]] = field(default_factory=dict)

    def differs(self, other: "Picture") -> list[str]:
        """Where another one, ours, is not the same."""
        wrong = []
        for name in self.__dataclass_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            for key in sorted(mine.keys() | theirs.keys()):
                one, two = mine.get(key), theirs.get(key)
                if one != two and not (name == "times" and self.contradicts(key)):
                    wrong.append(f"{name} {key}: {_difference(one, two)}")
        return wrong

    def contradicts(self, question: str) -> bool:
        """Whether "no record so late" is the answer to a question by time, and it is not so.

        Kafka looks into one segment alone; one that compaction left empty hides all behind it.
        """
        name, _, moment = question.partition("@")
        late = any(record[2] >= int(moment) for record in self.records[name])
        return self.times.get(question) == -1 and late

    @property
    def counts(self) -> tuple[int, int, int]:
        """Records in both isolation levels, questions by time, commits."""
        read = sum(map(len, self.records.values())) + sum(map(len, self.committed_records.values()))
        return read, len(self.times), len(self.commits)


def _difference(one: Any, two: Any) -> str:
    if not isinstance(one, list) or not isinstance(two, list):
        return f"{str(one)[:60]} against {str(two)[:60]}"
    for number, (mine, theirs) in enumerate(zip(one, two, strict=False)):
        if mine != theirs:
            return f"record {number}: {mine!r} against {theirs!r}"
    return f"{len(one)} against {len(two)} records, the last {one[-1:]!r} and {two[-1:]!r}"


def partitions_of(bootstrap: str, count: int) -> Places:
    """The partitions of the users' topics, once there are `count` of them and all are led."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    deadline = time.monotonic() + _SECONDS_MAX
    while True:
        topics = admin.list_topics(timeout=30).topics
        found = sorted(
            (name, one.id)
            for name, topic in topics.items()
            for one in topic.partitions.values()
            if name not in INTERNAL and one.leader >= 0
        )
        if len(found) == count:
            return found
        # A Kafka listens before it has loaded its logs.
        assert time.monotonic() < deadline, f"{len(found)} partitions are led, not {count}"
        time.sleep(0.3)


def short(data: bytes | None) -> str | None:
    return None if data is None else hashlib.blake2b(data, digest_size=8).hexdigest()


def patiently(ask: Callable[[], T]) -> T:
    """Ask until there is an answer: a broker that has just started leads nothing yet."""
    deadline = time.monotonic() + _SECONDS_MAX
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def read(bootstrap: str, count: int) -> Picture:
    """Read everything; there are `count` partitions."""
    picture = Picture()
    places = partitions_of(bootstrap, count)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "j-none", **QUIET})
    try:
        for topic, partition in places:
            name = f"{topic}-{partition}"
            picture.watermarks[name] = patiently(
                partial(
                    consumer.get_watermark_offsets, TopicPartition(topic, partition), timeout=30
                )
            )
        for level, into in (
            ("read_uncommitted", picture.records),
            ("read_committed", picture.committed_records),
        ):
            into.update(_records(bootstrap, places, level, picture.watermarks))
        picture.times.update(_times(consumer, places, picture.records))
    finally:
        consumer.close()
    for group in (*GROUPS, NEWER_GROUP):
        picture.commits.update(_commits(bootstrap, group, places))
    return picture


def _records(
    bootstrap: str, places: Places, level: str, lows: dict[str, tuple[int, int]]
) -> dict[str, list[Record]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "j-none",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "check.crcs": True,
            **QUIET,
        }
    )
    found: dict[str, list[Record]] = {f"{topic}-{one}": [] for topic, one in places}
    open_ = set(places)
    starts = [TopicPartition(topic, one, lows[f"{topic}-{one}"][0]) for topic, one in places]
    consumer.assign(starts)
    deadline = time.monotonic() + _SECONDS_MAX
    try:
        while open_:
            assert time.monotonic() < deadline, f"{sorted(open_)} do not end"
            # It waits for all of them or for the time given, ends of partitions or not.
            for message in consumer.consume(1000, timeout=0.2):
                place = (message.topic(), message.partition())
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    open_.discard(place)
                    continue
                found[f"{place[0]}-{place[1]}"].append(
                    (
                        message.offset(),
                        *message.timestamp(),
                        short(message.key()),
                        short(message.value()),
                        [(name, short(value)) for name, value in message.headers() or ()],
                    )
                )
    finally:
        consumer.close()
    return found


def _times(consumer: Consumer, places: Places, records: dict[str, list[Record]]) -> dict[str, int]:
    """The first offset for times in and around what each partition holds."""
    found: dict[str, int] = {}
    for topic, partition in places:
        name = f"{topic}-{partition}"
        known = sorted({record[2] for record in records[name]})
        step = max(len(known) // 12, 1)
        asked = sorted({0, *(one + more for one in known[::step] for more in (-1, 0, 1))})
        for moment in asked:
            if moment < 0:
                continue
            question = TopicPartition(topic, partition, moment)
            (answer,) = patiently(partial(consumer.offsets_for_times, [question], 30))
            found[f"{name}@{moment}"] = answer.offset
    return found


def _commits(bootstrap: str, group: str, places: Places) -> dict[str, tuple[int, str]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    try:
        asked = [TopicPartition(topic, partition) for topic, partition in places]
        answers = patiently(partial(consumer.committed, asked, timeout=30))
        return {
            f"{group} {one.topic}-{one.partition}": (one.offset, one.metadata or "")
            for one in answers
            if one.offset >= 0
        }
    finally:
        consumer.close()
