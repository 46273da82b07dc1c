"""`headrace txn`, `producers` and `quota` against a broker."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.client.admin.producer_states import describe_producers
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, send

ID = "payments-1"


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", partitions=2)
        yield started


@pytest.fixture
def writer(broker: BrokerThread) -> Producer:
    """A producer with an open transaction in orders-1, behind three records of another."""
    send(broker.bootstrap, "orders", 3, partition=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": ID})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"undecided", partition=1)
    assert producer.flush(30) == 0
    return producer


def open_from(asked: Asked) -> list[int | None]:
    return [row["transaction_start_offset"] for row in asked("producers", "orders:1")[1]]


def test_an_open_transaction_is_listed_described_and_aborted_by_its_id(
    asked: Asked, says: Says, writer: Producer
) -> None:
    _, listed = asked("txn list")
    assert [(row["transactional_id"], row["state"], row["coordinator"]) for row in listed] == [
        (ID, "Ongoing", 0)
    ]
    assert asked("txn list", "--state", "CompleteAbort")[1] == []
    code, (found, missing) = asked("txn describe", ID, "payments-2")
    assert (code, missing["error"]["code"]) == (4, "NOT_FOUND")
    assert found["partitions"] == [{"topic": "orders", "partition": 1}]
    assert found["started_ms"] > 1_600_000_000_000
    assert ID in says("txn", "describe", ID)[1]
    assert 3 in open_from(asked)
    code, answer = asked("txn abort", ID)
    assert (code, "pass --yes" in answer["error"]["message"]) == (2, True)
    code, answer = asked("txn abort", ID, "--yes")
    assert (code, answer["transactional_id"]) == (0, ID)
    assert asked("txn list", "--state", "Ongoing")[1] == []
    assert set(open_from(asked)) == {None}
    _, (ended,) = asked("txn describe", ID)
    assert (ended["started_ms"], ended["partitions"]) == (None, [])
    code, answer = asked("txn abort", ID, "--yes")
    assert (code, "has no open transaction" in answer["error"]["message"]) == (1, True)


def test_what_hangs_in_one_partition_is_aborted_there(
    asked: Asked, says: Says, writer: Producer, broker: BrokerThread
) -> None:
    code, answer = asked("txn abort", "--topic", "orders:1", "--start-offset", "2", "--yes")
    assert (code, answer["error"]["code"]) == (4, "NOT_FOUND")
    code, answer = asked("txn abort", "--topic", "orders:1", "--start-offset", "3", "--yes")
    assert (code, answer["partition"]) == (0, {"topic": "orders", "partition": 1})
    with connect(broker.bootstrap) as client:
        states = run(describe_producers(client, [TopicPartition("orders", 1)]))
    assert {state.transaction_start for state in states} == {-1}
    _, text, _ = says("producers", "orders")
    assert text.split()[:3] == ["TOPIC", "PARTITION", "PRODUCER"]


@pytest.mark.parametrize(("words", "code", "said"), [
    ("txn abort", 2, "say which: a transactional id, or --topic"),
    ("txn abort a --topic orders:0 --start-offset 1", 2, "say which"),
    ("txn abort --topic orders:0", 2, "say which"),
    ("txn abort --topic orders --start-offset 1 --yes", 2, "name one partition"),
    ("txn abort a --yes", 4, "there is no transactional id a"),
    ("txn list --state Running", 2, "must be one of Empty, Ongoing"),
    ("txn describe", 2, "name at least one transactional id"),
    ("producers", 2, "name at least one topic"),
    ("producers nothing", 4, "there is no topic nothing"),
    ("quota set producer_byte_rate=1", 2, "say whose: --user, --client-id, --ip or --default"),
    ("quota set --user a", 2, "nothing to set"),
    ("quota set producer_bite_rate=1 --user a", 2, "did you mean producer_byte_rate?"),
    ("quota set producer_byte_rate=-1 --user a", 2, "must be a number above 0"),
    ("quota set producer_byte_rate=nan --user a", 2, "must be a number above 0"),
    ("quota set producer_byte_rate=1 --ip 1.2.3.4", 2, "there are connection_creation_rate"),
    ("quota set producer_byte_rate=1 --ip 1.2.3.4 --user a", 2, "--ip goes with no user"),
    ("quota set producer_byte_rate=1 --default planet", 2, "must be user, client-id or ip"),
    ("quota set producer_byte_rate=1 --default user --user a", 2, "names one already"),
    ("quota delete --user a", 1, "no such quota is set for user a"),
])  # fmt: skip
def test_a_slip_is_named_with_its_remedy(words: str, code: int, said: str, says: Says) -> None:
    found = says(*words.split())
    assert (found[0], said in found[2], found[2].count("\n")) == (code, True, 1), found


@pytest.mark.parametrize(("flags", "entity", "key"), [
    (["--user", "alice"], {"user": "alice"}, "producer_byte_rate"),
    (["--user", "a", "--client-id", "b"], {"user": "a", "client-id": "b"}, "request_percentage"),
    (["--default", "client-id"], {"client-id": None}, "consumer_byte_rate"),
    (["--ip", "10.0.0.1"], {"ip": "10.0.0.1"}, "connection_creation_rate"),
])  # fmt: skip
def test_a_quota_is_set_listed_and_taken_back(
    flags: list[str], entity: dict[str, str | None], key: str, asked: Asked, says: Says
) -> None:
    assert says("quota", "list") == (0, "", "no quotas are set\n")
    _, answer = asked("quota set", f"{key}=1024", *flags)
    assert (answer["entity"], answer["set"]) == (entity, {key: 1024})
    assert asked("quota list")[1] == [{"entity": entity, "quotas": {key: 1024}}]
    assert asked("quota list", *flags)[1] == asked("quota list")[1]
    assert asked("quota list", "--user", "nobody")[1] == []
    assert "1024" in says("quota", "list")[1]
    assert asked("quota delete", *flags)[1]["deleted"] == [key]
    assert asked("quota list")[1] == []
