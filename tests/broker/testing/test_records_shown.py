"""What a test's broker tells of its records: which, and in which words."""

import pytest

from headrace.client.producer.producer import Producer
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError, ErrorCode
from headrace.testing import BrokerThread
from headrace.testing import records as module
from headrace.testing.records import shown


def fill(broker: BrokerThread, topic: str, count: int) -> None:
    """Produce `count` records to partition 0, in batches of three."""
    with connect(broker.bootstrap) as client:
        producer = Producer(client)

        async def story() -> None:
            for number in range(count):
                key = b"k" if number % 2 else None
                await producer.send(
                    topic, b"%d" % number, key, timestamp=1, headers=[("h", b"\xff")], partition=0
                )
                if number % 3 == 2:
                    await producer.flush()
            await producer.flush()

        run(story())


def test_of_a_topic_so_many_of_the_newest_records_are_told() -> None:
    with BrokerThread() as broker:
        broker.create_topics("t", partitions=2)
        fill(broker, "t", 7)
        values = [int(record.value or b"-1") for record in broker.records("t")]
        assert values == list(range(7))
        for last, first in ((1, 6), (3, 4), (7, 0), (8, 0)):
            found = broker.records("t", last=last)
            assert [record.offset for record in found] == list(range(first, 7)), last
        with pytest.raises(ApiError) as missing:
            broker.records("u")
        assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.delete_topics("t", "u")
        with pytest.raises(ApiError):
            broker.records("t")


def test_records_are_shown_in_lines_and_so_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_PER_PARTITION", 2)
    monkeypatch.setattr(module, "SHOWN_PARTITIONS", 2)
    with BrokerThread() as broker:
        broker.create_topics("t", partitions=2)
        broker.create_topics("u")
        fill(broker, "t", 5)

        def lines(*topics: str) -> list[str]:
            text: str = broker.call(lambda server: shown(server.broker, topics))
            return text.splitlines()

        assert lines("t") == [
            "t-0: offsets 0 to 5", "  …",
            "  3  'k' -> '3' h=b'\\xff'", "  4  null -> '4' h=b'\\xff'",
            "t-1: offsets 0 to 0, empty",
        ]  # fmt: skip
        assert lines("none", "t", "u")[0] == "none: there is no such topic"
        assert lines("t", "u")[-1] == "… and 1 partitions more"
        monkeypatch.setattr(module, "SHOWN_PER_PARTITION", 5)
        assert "  …" not in lines("t")


@pytest.mark.parametrize(
    ("data", "text"), [(None, "null"), (b"abc", "'abc'"), (b"abcd", "'abc'… (4 bytes)")]
)
def test_long_values_are_cut(
    data: bytes | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHOWN_BYTES", 3)
    assert module._text(data) == text
    assert module._text(b"\xff\xff\xff\xff") == "b'\\xff\\xff\\xff'… (4 bytes)"
