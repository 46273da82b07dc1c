"""Topics of a quarantine on a broker: settings, ACLs, permissions, retention, large records."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from headrace.client.admin.acls import create_acls, describe_acls
from headrace.client.admin.topics import TOPIC_RESOURCE, create_topic, describe_configs
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model import protocols
from headrace.model.nouns import TopicPartition
from headrace.pipeline.quarantine.settlement import replay
from headrace.security.acl import AclBinding, AclEntry, AclFilter, Permission
from headrace.security.authorizer import Operation, PatternType, Resource, ResourceType
from headrace.spark.errors import SinkError, SourceError
from headrace.spark.quarantine import publish as publication
from headrace.spark.quarantine.manifest import write_manifest
from headrace.spark.quarantine.options import SinkQuarantine, SourceQuarantine
from headrace.spark.quarantine.publish import publish
from headrace.spark.quarantine.refused import SCHEMA
from headrace.spark.quarantine.spool import BatchRun, Planned, RangeSpool, Spool
from headrace.spark.quarantine.topics import prepare_retry_topics, prepare_topics
from headrace.spark.security import NO_SECURITY
from headrace.testing import BrokerThread
from tests.spark.sink_kit import committed_rows

DAY_MS = 86_400_000


def started(**settings: str) -> Iterator[BrokerThread]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with BrokerThread(named) as broker:
        yield broker


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    yield from started(log_retention_check_interval_ms="200")


@pytest.fixture
def guarded() -> Iterator[BrokerThread]:
    """A broker whose ACLs decide, and that allows what no ACL names."""
    yield from started(
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        allow_everyone_if_no_acl_found="true",
    )


def client_of(broker: BrokerThread) -> Client:
    return connect(broker.bootstrap, retry_seconds=5.0)


def quarantine(spool: Path, **more: Any) -> SourceQuarantine:
    return SourceQuarantine(Spool(str(spool), "orders"), "shop", 30 * DAY_MS, "aa", **more)


def prepare(client: Client, spool: Path, topics: dict[str, int]) -> None:
    run(prepare_topics(client, quarantine(spool), topics))


def settings(client: Client, topic: str) -> dict[str, str | None]:
    entries = run(describe_configs(client, TOPIC_RESOURCE, topic))
    return {entry.name: entry.value for entry in entries}


def test_topics_are_made_with_the_partitions_and_room_for_the_reason(
    broker: BrokerThread, tmp_path: Path
) -> None:
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=3, configs={"max.message.bytes": "5000000"}))
        for _ in range(2):
            prepare(client, tmp_path, {"t": 3})
        known = run(client.metadata(["t.quarantine", "shop.orders.quarantine.decisions"]))
        assert len(known.topics["t.quarantine"].partitions) == 3
        assert len(known.topics["shop.orders.quarantine.decisions"].partitions) == 1
        found = settings(client, "t.quarantine")
        assert found["retention.ms"] == str(30 * DAY_MS)
        assert found["cleanup.policy"] == "delete"
        assert found["message.timestamp.type"] == "CreateTime"
        assert int(found["max.message.bytes"] or 0) > 5_000_000
        assert settings(client, "shop.orders.quarantine.decisions")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("prefix", [row.topics.prefix for row in protocols.ROWS if row.topics])
def test_quarantine_of_a_protocols_topic_has_a_name_that_brokers_accept(
    broker: BrokerThread, tmp_path: Path, prefix: str
) -> None:
    topic = f"{prefix}queue.orders"
    with client_of(broker) as client:
        prepare(client, tmp_path, {topic: 2})
        run(prepare_retry_topics(client, quarantine(tmp_path, retry=True), [topic]))
        names = [f"{prefix[1:]}queue.orders.quarantine", f"shop.{topic}.retry"]
        known = run(client.metadata(names))
        assert [len(known.topics[name].partitions) for name in names] == [2, 1]


@pytest.mark.parametrize("name", ["t.quarantine", "shop.orders.quarantine.decisions"])
def test_a_query_does_not_read_quarantines(broker: BrokerThread, tmp_path: Path, name: str) -> None:
    with (
        client_of(broker) as client,
        pytest.raises(SourceError, match=f"{name}: with mode=QUARANTINE a query does not read"),
    ):
        prepare(client, tmp_path, {"t": 1, name: 1})


def binding(topic: str, operation: Operation, permission: Permission, **more: Any) -> AclBinding:
    pattern = more.get("pattern", PatternType.LITERAL)
    resource = Resource(ResourceType.TOPIC, topic, pattern)
    return AclBinding(resource, AclEntry("User:alice", "*", operation, permission))


def test_a_quarantine_gets_the_literal_acls_of_its_topic(
    guarded: BrokerThread, tmp_path: Path
) -> None:
    allowed = binding("t", Operation.READ, Permission.ALLOW)
    denied = binding("t", Operation.WRITE, Permission.DENY)
    others = [
        binding("t", Operation.ALTER, Permission.ALLOW, pattern=PatternType.PREFIXED),
        binding("u", Operation.READ, Permission.ALLOW),
    ]
    with client_of(guarded) as client:
        run(create_topic(client, "t", partitions=1))
        assert run(create_acls(client, [allowed, denied, *others])) == [None] * 4
        run(create_acls(client, [_anonymous("t", Operation.ALL), _anonymous("t.", Operation.ALL)]))
        for _ in range(2):
            prepare(client, tmp_path, {"t": 1})
        wanted = AclFilter(ResourceType.TOPIC, "t.quarantine", PatternType.LITERAL)
        found = set(run(describe_acls(client, wanted)))
    literal = {allowed, denied, _anonymous("t", Operation.ALL)}
    assert found == {
        AclBinding(each.resource._replace(name="t.quarantine"), each.entry) for each in literal
    }


def _anonymous(topic: str, operation: Operation) -> AclBinding:
    pattern = PatternType.PREFIXED if topic.endswith(".") else PatternType.LITERAL
    entry = AclEntry("User:ANONYMOUS", "*", operation, Permission.ALLOW)
    return AclBinding(Resource(ResourceType.TOPIC, topic, pattern), entry)


@pytest.mark.parametrize(
    "resource",
    [
        Resource(ResourceType.TOPIC, "t.quarantine", PatternType.LITERAL),
        Resource(ResourceType.TOPIC, "shop.orders.quarantine.decisions", PatternType.LITERAL),
        Resource(ResourceType.TRANSACTIONAL_ID, "shop.orders.quarantine", PatternType.LITERAL),
    ],
)
def test_a_missing_permission_is_the_error_of_the_start(
    guarded: BrokerThread, tmp_path: Path, resource: Resource
) -> None:
    entry = AclEntry("User:ANONYMOUS", "*", Operation.WRITE, Permission.DENY)
    with client_of(guarded) as client:
        run(create_topic(client, "t", partitions=1))
        run(create_acls(client, [AclBinding(resource, entry)]))
        with pytest.raises(
            SourceError, match=r"flow orders cannot be written: .* needs CREATE and"
        ):
            prepare(client, tmp_path, {"t": 1})
        assert run(transactions.open_ids(client, "shop.")) == []


def test_retry_topics_are_made_once_with_room_for_the_headers(
    broker: BrokerThread, tmp_path: Path
) -> None:
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=3, configs={"max.message.bytes": "5000000"}))
        for _ in range(2):
            run(prepare_retry_topics(client, quarantine(tmp_path, retry=True), ["t"]))
        known = run(client.metadata(["shop.t.retry"]))
        assert len(known.topics["shop.t.retry"].partitions) == 1
        found = settings(client, "shop.t.retry")
        assert int(found["max.message.bytes"] or 0) > 5_000_000
        assert (found["cleanup.policy"], found["retention.ms"]) == ("delete", "-1")


def test_a_replay_makes_a_retry_topic_without_retention(broker: BrokerThread) -> None:
    with client_of(broker) as client:
        run(create_topic(client, "t.quarantine", partitions=1))
        replay(client, "t", ("shop", "orders"), lambda record: True)
        found = settings(client, "shop.t.retry")
        assert (found["retention.ms"], found["retention.bytes"]) == ("-1", "-1")


def test_a_retry_topic_that_may_not_be_made_is_the_error_of_the_start(
    guarded: BrokerThread, tmp_path: Path
) -> None:
    resource = Resource(ResourceType.TOPIC, "shop.t.retry", PatternType.LITERAL)
    entry = AclEntry("User:ANONYMOUS", "*", Operation.ALL, Permission.DENY)
    with client_of(guarded) as client:
        run(create_topic(client, "t", partitions=1))
        run(create_acls(client, [AclBinding(resource, entry)]))
        with pytest.raises(
            SourceError,
            match=r"flow orders cannot be read: .* needs CREATE and READ on shop\.t\.retry",
        ):
            run(prepare_retry_topics(client, quarantine(tmp_path, retry=True), ["t"]))


def test_acls_that_may_not_be_read_are_a_warning(
    guarded: BrokerThread, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Resource(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    entry = AclEntry("User:ANONYMOUS", "*", Operation.DESCRIBE, Permission.DENY)
    with client_of(guarded) as client:
        run(create_topic(client, "t", partitions=1))
        run(create_acls(client, [AclBinding(cluster, entry)]))
        with caplog.at_level(logging.WARNING):
            prepare(client, tmp_path, {"t": 1})
    assert "the ACLs of topic t cannot be copied to t.quarantine" in caplog.text


def spooled(spool: Spool, batch: int, *, timestamp: int, value: bytes = b"x") -> int:
    """Spool one refused record and write the manifest; return its digest."""
    spool.announce_sink("q")
    at = BatchRun("q", batch, "run")
    planned = (Planned(0, 0, 1),)
    range_ = RangeSpool(spool, at, TopicPartition("t", 0), (0, 1), "aa", planned)
    row = {
        "topic": "t", "partition": 0, "offset": batch, "timestamp": timestamp, "key": b"k",
        "value": value, "headers": [], "stage": "decode", "reason": "no", "field": "",
        "schema": "aa", "attempt": 1,
    }  # fmt: skip
    range_.add(pa.RecordBatch.from_pylist([row], SCHEMA))
    range_.finish(1)
    manifest = write_manifest(spool, at)
    assert manifest is not None
    return manifest.digest


def sink(broker: BrokerThread, spool: Spool) -> SinkQuarantine:
    return SinkQuarantine(spool, "shop", broker.bootstrap, NO_SECURITY, 0.5, 1000)


def test_an_old_record_stays_for_the_retention_from_its_publication(
    broker: BrokerThread, tmp_path: Path
) -> None:
    spool, long_ago = Spool(str(tmp_path), "orders"), int(time.time() * 1000) - 700 * DAY_MS
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=1))
        prepare(client, tmp_path, {"t": 1})
        assert publish(sink(broker, spool), "q", 0, spooled(spool, 0, timestamp=long_ago))
        plain = TopicPartition("plain", 0)
        configs = {"retention.ms": str(30 * DAY_MS)}
        run(create_topic(client, "plain", partitions=1, configs=configs))
        producer = Producer(client)
        run(producer.send("plain", b"x", timestamp=long_ago, partition=0))
        run(producer.flush())
        end = time.monotonic() + 60
        while run(list_offsets(client, {plain: EARLIEST}))[plain].offset == 0:
            assert time.monotonic() < end, "retention has deleted nothing"
    (row,) = committed_rows(broker.bootstrap, "t.quarantine")
    assert int(row["timestamp"].timestamp() * 1000) == long_ago


def test_a_batch_is_published_once_and_earlier_ones_not_again(
    broker: BrokerThread, tmp_path: Path
) -> None:
    spool, options = Spool(str(tmp_path), "orders"), sink(broker, Spool(str(tmp_path), "orders"))
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=1))
        prepare(client, tmp_path, {"t": 1})
    digests = [spooled(spool, batch, timestamp=1) for batch in range(2)]
    assert publish(options, "q", 0, digests[0])
    assert not publish(options, "q", 0, digests[0])
    assert publish(options, "q", 1, digests[1])
    assert not publish(options, "q", 0, digests[0])
    # A new checkpoint counts its batches from 0.
    (tmp_path / "orders/q").rename(tmp_path / "orders/q2")
    assert publish(options, "q2", 0, digests[0])
    assert not publish(options, "q", 1, digests[1])
    assert len(committed_rows(broker.bootstrap, "t.quarantine")) == 3


def test_a_record_as_large_as_the_topic_allows_is_published(
    broker: BrokerThread, tmp_path: Path
) -> None:
    spool = Spool(str(tmp_path), "orders")
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=1, configs={"max.message.bytes": "2000000"}))
        prepare(client, tmp_path, {"t": 1})
        import random

        value = random.Random(1).randbytes(1_999_900)
        digest = spooled(spool, 0, timestamp=1, value=value)
        assert publish(sink(broker, spool), "q", 0, digest)
    (row,) = committed_rows(broker.bootstrap, "t.quarantine")
    assert row["value"] == value


def test_a_publication_that_is_refused_leaves_no_transaction_open_for_the_next_one(
    broker: BrokerThread, tmp_path: Path
) -> None:
    spool = Spool(str(tmp_path), "orders")
    digest = spooled(spool, 0, timestamp=1)
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=1))
        with pytest.raises(
            SinkError, match=r"batch 0: .*t\.quarantine.*; the batch is written, and"
        ):
            publish(sink(broker, spool), "q", 0, digest)
        prepare(client, tmp_path, {"t": 1})
        assert publish(sink(broker, spool), "q", 0, digest)
        place = TopicPartition("t.quarantine", 0)
        ends = [
            run(list_offsets(client, {place: LATEST}, read_committed=committed))[place].offset
            for committed in (True, False)
        ]
    assert ends[0] == ends[1]
    assert len(committed_rows(broker.bootstrap, "t.quarantine")) == 1


@pytest.mark.parametrize("intrusions", [1, 3, 1000])
def test_a_publication_is_repeated_when_another_query_takes_over_its_id(
    broker: BrokerThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intrusions: int
) -> None:
    """Two storages with a pipeline of one name: each publishes all, unless it never ends."""
    spool, other = (Spool(str(tmp_path / name), "orders") for name in ("a", "b"))
    digest = spooled(spool, 0, timestamp=1)
    others = [spooled(other, batch, timestamp=1) for batch in range(min(intrusions, 20))]
    (tmp_path / "b/orders/q").rename(tmp_path / "b/orders/q2")
    with client_of(broker) as client:
        run(create_topic(client, "t", partitions=1))
        prepare(client, tmp_path / "a", {"t": 1})
    records = publication._Publication._records
    intruded = 0

    def intrude(self: Any) -> Any:
        nonlocal intruded
        found = list(records(self))
        if self._query == "q" and intruded < intrusions:
            batch, intruded = intruded, intruded + 1
            assert publish(sink(broker, other), "q2", batch, others[batch])
        return iter(found)

    monkeypatch.setattr(publication._Publication, "_records", intrude)
    monkeypatch.setattr(publication, "_PAUSE_SECONDS_MAX", 0.0)
    if intrusions == 1000:
        with pytest.raises(SinkError, match="batch 0"):
            publish(sink(broker, spool), "q", 0, digest)
        assert intruded == publication._TAKEN_OVER_MAX
        monkeypatch.undo()
    assert publish(sink(broker, spool), "q", 0, digest) is True
    assert publish(sink(broker, spool), "q", 0, digest) is False
    assert len(committed_rows(broker.bootstrap, "t.quarantine")) == 1 + intruded
