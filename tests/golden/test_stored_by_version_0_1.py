"""Directories that version 0.1 (5ea511b8) left: a broker of today serves all that is in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

import headrace.arrow
from headrace.cli.main import run as command
from tests.support.version_before.compare import differences
from tests.support.version_before.fill_kafka import (
    TRANSACTION_MS,
    consumer_of,
    flushed,
    producer_of,
    send,
)
from tests.support.version_before.observe_kafka import GROUPS, OPEN_ID, OPEN_TOPIC, read, text
from tests.support.version_before.stored_broker import StoredBroker
from tests.support.version_before.write_broker import ENDS, GOLDEN, observe, read_json, unpack

SECTIONS = [
    ("kafka", "records"), ("kafka", "committed"), ("kafka", "groups"), ("kafka", "topics"),
    ("kafka", "settings"), ("kafka", "transactions"), ("kafka", "share_group"),
    ("amqp", "listed"), ("amqp", "opened"), ("amqp", "queues"), ("amqp", "streams"),
    ("amqp", "shop"),
]  # fmt: skip
Answer = dict[str, dict[str, Any]]
pytestmark = pytest.mark.filterwarnings("default")


def recorded(end: str) -> Answer:
    """Everything that version 0.1 read in a copy of the same directory."""
    found: Answer = read_json(GOLDEN / f"broker-{end}.expected.json.gz")
    return found


@pytest.fixture(scope="module", params=ENDS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Answer, Answer]:
    """What version 0.1 recorded, and what this version reads."""
    place = tmp_path_factory.mktemp(request.param)
    unpack(GOLDEN / f"broker-{request.param}.tar.xz", place)
    with StoredBroker(place) as broker:
        return recorded(request.param), observe(broker)


@pytest.fixture(params=ENDS)
def log_directory(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """How the broker ended, and a copy of its log directory."""
    return request.param, unpack(GOLDEN / f"broker-{request.param}.tar.xz", tmp_path)


@pytest.mark.parametrize(("protocol", "section"), SECTIONS)
def test_stored_state_reads_as_version_0_1_read_it(
    both: tuple[Answer, Answer], protocol: str, section: str
) -> None:
    then, now = (each[protocol][section] for each in both)
    if section == "transactions":  # the open one times out 24 days after its beginning
        then, now = ({**each, "open": each["open"]["producer_id"]} for each in (then, now))
    if section == "listed":  # the vhost "/" has RabbitMQ's description since
        described = {**then["vhost"][0], "description": "Default virtual host"}
        then = {**then, "vhost": [described, *then["vhost"][1:]]}
    assert [*differences(then, now)] == []


def test_every_section_is_compared(both: tuple[Answer, Answer]) -> None:
    then, _ = both
    found = {(protocol, section) for protocol in then for section in then[protocol]}
    assert found == {*SECTIONS, ("amqp", "declared_again")}


def test_log_verify_finds_stored_directories_sound(
    log_directory: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, directory = log_directory
    assert command(["log", "verify", str(directory)]) == 0, capsys.readouterr().out


def test_arrow_opens_stored_topics(log_directory: tuple[str, Path]) -> None:
    end, directory = log_directory
    for isolation in ("read_committed", "read_uncommitted"):
        partitions = recorded(end)["kafka"]["records"][isolation]
        for place, rows in partitions.items():
            topic, _, partition = place.rpartition("-")
            table = headrace.arrow.open(
                directory, topic, partitions=[int(partition)], isolation=isolation
            ).read_all()
            columns = (table.column(name).to_pylist() for name in ("offset", "key", "value"))
            found = [[at, text(key), text(value)] for at, key, value in zip(*columns, strict=True)]
            assert found == [[row[0], *row[3:5]] for row in rows], (place, isolation)


@pytest.fixture(params=ENDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, StoredBroker]]:
    """How the broker ended, and one of this version on a copy of its directory."""
    unpack(GOLDEN / f"broker-{request.param}.tar.xz", tmp_path)
    with StoredBroker(tmp_path) as found:
        yield request.param, found


def test_clients_go_on_where_they_stopped(broker: tuple[str, StoredBroker]) -> None:
    end, opened = broker
    before = recorded(end)["kafka"]["records"]
    owner = producer_of(opened, transactional_id=OPEN_ID, transaction_timeout_ms=TRANSACTION_MS)
    owner.init_transactions(30)  # aborts the open transaction
    place = TopicPartition(OPEN_TOPIC, 0)
    owner.begin_transaction()
    send(owner, OPEN_TOPIC, range(200, 205))
    owner.commit_transaction(30)
    rows = read(opened, [place], "read_committed")[f"{OPEN_TOPIC}-0"]
    assert rows[:15] == before["read_committed"][f"{OPEN_TOPIC}-0"]
    assert [row[2] % 1000 for row in rows[15:]] == [200, 201, 202, 203, 204]
    plain = producer_of(opened)
    send(plain, "v-group", [60])
    flushed(plain)
    for group in GROUPS[:2]:
        consumer = consumer_of(opened, group)
        consumer.subscribe(["v-group"])
        (first,) = consumer.consume(1, 60)
        assert first.error() is None
        assert first.offset() == {0: 42, 1: 7}[first.partition()]
        consumer.close()
