"""The shipped pytest plugin, used the way a test suite of others would use it."""

import textwrap
import time
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from headrace.testing.records import SHOWN_BYTES, SHOWN_PARTITIONS, SHOWN_PER_PARTITION, shown
from tests.support.processes.broker import append

pytest_plugins = ("pytester",)

CLIENT = """
import pytest
from confluent_kafka import Consumer, Producer

def put(servers, topic, *values):
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, key="k")
    assert producer.flush(20) == 0

def take(servers, topic, count):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < count:
        message = consumer.poll(20)
        assert message is not None and message.error() is None
        found.append(message.value())
    consumer.close()
    return found
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # Installed or not, it is this tree's plugin that runs.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "src"))
    return Run(pytester)


class Run:
    """One test file of somebody else's, run by a pytest of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, test: str, *words: str, ini: str = "") -> pytest.RunResult:
        self._pytester.makepyfile(CLIENT + textwrap.dedent(test))
        self._pytester.makeini(f"[pytest]\naddopts = --strict-markers\n{ini}\n")
        return self._pytester.runpytest_subprocess("-p", "headrace.testing.plugin", *words)


def test_topics_by_mark_settings_by_fixture_and_records_on_failure(run: Run) -> None:
    found = run(
        """
        @pytest.fixture
        def headrace_settings():
            return {"num.partitions": "5"}

        @pytest.mark.headrace_topics("a", "b", partitions=3, config={"retention.ms": "77"})
        @pytest.mark.headrace_topics("c")
        def test_marked(kafka_bootstrap_servers, headrace_broker):
            assert headrace_broker.topics() == ["a", "b", "c"]
            image = headrace_broker.call(lambda server: server.broker.image)
            assert [len(image.topics[name].partitions) for name in "abc"] == [3, 3, 1]
            assert image.topics["a"].config == {"retention.ms": "77"}
            put(kafka_bootstrap_servers, "c", "unseen", "two")
            assert take(kafka_bootstrap_servers, "c", 2) == [b"unseen", b"two"]
            assert [one.value for one in headrace_broker.records("c")] == [b"unseen", b"two"]

        @pytest.mark.headrace_topics("t")
        @pytest.mark.parametrize("turn", [0, 1])
        def test_alone(headrace_broker, turn):
            assert headrace_broker.topics() == ["t"]
            assert headrace_broker.records("t") == []
            put(headrace_broker.bootstrap, "made", "x")
            image = headrace_broker.call(lambda server: server.broker.image)
            assert len(image.topics["made"].partitions) == 5

        @pytest.mark.headrace_topics("orders", partitions=2)
        def test_failing(kafka_bootstrap_servers):
            put(kafka_bootstrap_servers, "orders", "first", "second")
            assert False
        """
    )
    found.assert_outcomes(passed=3, failed=1)
    text = found.stdout.str()
    assert "Records in the topics of Headrace" in text
    assert "'k' -> 'first'" in text
    assert "'k' -> 'second'" in text
    assert "offsets 0 to 0, empty" in text
    assert "unseen" not in text


def test_a_broker_kept_longer_has_empty_topics_for_each_test(run: Run) -> None:
    found = run(
        """
        SERVERS = []

        @pytest.mark.headrace_topics("t")
        @pytest.mark.parametrize("turn", [0, 1])
        def test_it(headrace_broker, turn):
            SERVERS.append(headrace_broker.server)
            assert headrace_broker.records("t") == []
            put(headrace_broker.bootstrap, "t", "x")
            assert SERVERS[0] is SERVERS[-1]
        """,
        ini="headrace_broker_scope = module",
    )
    found.assert_outcomes(passed=2)


def test_mistakes_are_said(run: Run) -> None:
    test = """
        @pytest.mark.headrace_topics()
        def test_it():
            pass
        """
    found = run(test)
    found.assert_outcomes(errors=1)
    assert "needs the name of a topic" in found.stdout.str()
    found = run(test, ini="headrace_broker_scope = always")
    assert "must be one of function, class" in found.stdout.str() + found.stderr.str()


def test_tests_without_a_broker_import_none_of_it(run: Run) -> None:
    found = run(
        """
        import sys

        def test_it():
            assert not [one for one in sys.modules if one.startswith("headrace.server")]
        """
    )
    found.assert_outcomes(passed=1)


def test_what_is_shown_is_bounded() -> None:
    with BrokerThread(memory=True) as broker:
        broker.create_topics("many", partitions=SHOWN_PARTITIONS + 7)
        broker.create_topics("long")
        big = b"x" * (SHOWN_BYTES + 1)

        def fill() -> None:
            partition = broker.server.broker.partition("long", 0)
            append(partition, b"\xff")
            for _ in range(SHOWN_PER_PARTITION):
                append(partition, big)

        broker.call(lambda _: fill())
        topics = ["long", "absent", "many"]
        deadline = time.monotonic() + 20
        while len(broker.records("long")) <= SHOWN_PER_PARTITION and time.monotonic() < deadline:
            time.sleep(0.01)
        text = broker.call(lambda server: shown(server.broker, topics))
    lines = text.splitlines()
    assert len(lines) == 2 + SHOWN_PER_PARTITION + 1 + SHOWN_PARTITIONS - 1 + 1
    assert lines[-1] == "… and 8 partitions more"
    assert "absent: there is no such topic" in lines
    assert sum("… (201 bytes)" in line for line in lines) == SHOWN_PER_PARTITION


def test_a_temporary_directory_goes_when_the_broker_stops_and_a_given_one_stays(
    tmp_path: Path,
) -> None:
    own, given = BrokerThread(), BrokerThread(directory=str(tmp_path / "log"))
    for broker in (own, given):
        broker.start()
    temporary = own.directory
    assert Path(temporary).is_dir()
    for broker in (own, given):
        broker.stop()
        broker.stop()
    assert not Path(temporary).exists()
    assert own.directory == ""
    assert (tmp_path / "log" / "meta.properties").exists()
    assert given.directory == str(tmp_path / "log")


def test_a_suite_asks_for_a_broker_that_asks_who_connects(run: Run) -> None:
    found = run(
        """
        @pytest.fixture(scope="session")
        def headrace_security():
            return "SASL_SSL"

        @pytest.mark.headrace_topics("t")
        def test_guarded(headrace_broker, headrace_clients):
            assert headrace_clients.librdkafka["security.protocol"] == "SASL_SSL"
            producer = Producer(headrace_clients.librdkafka)
            producer.produce("t", "v")
            assert producer.flush(20) == 0
            assert [record.value for record in headrace_broker.records("t")] == [b"v"]
        """
    )
    found.assert_outcomes(passed=1)
