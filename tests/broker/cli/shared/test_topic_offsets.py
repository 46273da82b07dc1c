"""`headrace topic offsets`, `trim`, and topics chosen by regular expressions."""

from collections.abc import Iterator

import pytest

from headrace.terminal import confirmation
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, send


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", partitions=2)
        started.create_topics("orders-retry", "plain")
        started.create_topics("compacted", config={"cleanup.policy": "compact"})
        send(started.bootstrap, "orders", 10, time=1000)
        send(started.bootstrap, "orders", 3, partition=1, time=5000)
        send(started.bootstrap, "compacted", 3)
        yield started


def test_offsets_are_start_end_and_the_first_at_a_time(asked: Asked, says: Says) -> None:
    _, (zero, one) = asked("topic offsets", "orders", "--at", "@1004")
    assert zero == {
        "topic": "orders", "partition": 0, "start_offset": 0, "end_offset": 10, "offset": 4,
        "timestamp": 1004,
    }  # fmt: skip
    assert (one["offset"], one["timestamp"]) == (0, 5000)
    _, (zero, one) = asked("topic offsets", "orders", "--at", "4000")
    assert (zero["offset"], one["offset"]) == (None, 0), "no record is so late"
    _, (newest,) = asked("topic offsets", "orders:1", "--at", "max-timestamp")
    assert newest["timestamp"] == 5002
    _, text, remark = says("topic", "offsets", "orders:0")
    assert [line.split() for line in text.splitlines()] == [
        ["TOPIC", "PARTITION", "START", "END"], ["orders", "0", "0", "10"],
    ]  # fmt: skip
    assert remark == ""
    _, rows = asked("topic offsets", "-r", "orders.*")
    assert [row["topic"] for row in rows] == ["orders", "orders", "orders-retry"]


@pytest.mark.parametrize(("to", "starts"), [
    ("4", [4, 3]), ("end", [10, 3]), ("@1007", [7, 0]), ("-2", [8, 1]), ("+1", [1, 1]),
])  # fmt: skip
def test_trim_moves_the_start_and_no_further(to: str, starts: list[int], asked: Asked) -> None:
    if to == "4":
        starts = [4, 0]
    topics = ["orders:0"] if to == "4" else ["orders"]
    _, planned = asked("topic trim", *topics, "--to", to, "-n")
    assert [row["start_offset"] for row in asked("topic offsets", "orders")[1]] == [0, 0]
    code, done = asked("topic trim", *topics, "--to", to, "--yes")
    assert (code, done["partitions"]) == (0, planned["partitions"])
    assert [row["start_offset"] for row in asked("topic offsets", "orders")[1]] == starts


def test_trim_by_a_regular_expression_spares_internal_topics_and_names_what_it_asks_about(
    broker: BrokerThread, says: Says, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topics("__consumer_offsets")
    send(broker.bootstrap, "orders-retry", 2)
    monkeypatch.setattr(confirmation, "sys", _Terminal("n\n"))
    code, _, remark = says("topic", "trim", "-r", "orders.*", "--to", "end")
    assert (code, "of 3 partitions of orders, orders-retry permanently" in remark) == (1, True)
    monkeypatch.undo()
    code, done = asked("topic trim", "-r", "orders-r.*", "--to", "end", "--yes")
    assert (code, [row["to_offset"] for row in done["partitions"]]) == (0, [2])
    assert [row["start_offset"] for row in asked("topic offsets", "orders")[1]] == [0, 0]
    code, _, remark = says("topic", "trim", "-r", "__.*", "--to", "end", "--yes")
    assert (code, "no topic matches" in remark) == (4, True)


def test_trim_asks_and_does_nothing_without_a_yes(
    says: Says, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, remark = says("topic", "trim", "orders", "--to", "end")
    assert (code, "pass --yes to confirm" in remark) == (2, True)
    for answer, expected in (("n\n", 1), ("", 1), ("y\n", 0)):
        monkeypatch.setattr(confirmation, "sys", _Terminal(answer))
        code = says("topic", "trim", "orders:0", "--to", "3")[0]
        assert code == expected
        monkeypatch.undo()
        starts = [row["start_offset"] for row in asked("topic offsets", "orders:0")[1]]
        assert starts == [3 if expected == 0 else 0]


class _Terminal:
    """Somebody at a terminal who gives one answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.stdin = self
        import sys

        self.stderr = sys.stderr

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.answer


@pytest.mark.parametrize(("words", "code", "said"), [
    ("trim orders --to 11 --yes", 2, "the end offset of orders-0 is 10; to delete all records"),
    ("trim orders:1 --to +4 --yes", 2, "the end offset of orders-1 is 3"),
    ("trim orders:7 --to 1 --yes", 2, "orders:7: there is no partition 7"),
    ("trim orders:x --to 1 --yes", 2, "orders:x: must be topic or topic:0,1"),
    ("trim compacted --to 1 --yes", 1, "its records are not deleted by offset"),
    ("trim --to 1 --yes", 2, "name at least one topic"),
    ("offsets nothing", 4, "there is no topic nothing"),
    ("offsets orders --at noon", 2, "--at"),
    ("offsets -r (", 2, "invalid regular expression"),
    ("offsets -r rder", 4, "no topic matches rder; a pattern must match the whole name"),
    ("describe -r x.*", 4, "no topic matches x.*"),
    ("delete -r orders.*", 2, "Delete 2 topics, orders, orders-retry? cannot ask"),
])  # fmt: skip
def test_a_slip_is_named_with_its_remedy(words: str, code: int, said: str, says: Says) -> None:
    found = says("topic", *words.split())
    assert found[0] == code
    assert said in found[2]
    assert found[2].count("\n") == 1


def test_topics_are_chosen_by_expressions_of_their_whole_names(says: Says, asked: Asked) -> None:
    names = [topic["topic"] for topic in asked("topic list", "-r", "orders.*", "pl.in")[1]]
    assert names == ["orders", "orders-retry", "plain"]
    assert [topic["topic"] for topic in asked("topic list", "plain")[1]] == ["plain"]
    described = asked("topic describe", "-r", "orders-.*")[1]
    assert [topic["topic"] for topic in described] == ["orders-retry"]
    assert says("topic", "alter", "-r", "orders.*", "-c", "retention.ms=7", "--yes")[:2] == (
        0, "altered orders\naltered orders-retry\n",
    )  # fmt: skip
    kept = [says("config", "get", "topic", name, "retention.ms")[1] for name in ("orders", "plain")]
    assert [text.split()[-2:] for text in kept] == [["7", "topic"], ["604800000", "default"]]
    assert says("topic", "delete", "-r", "orders.*", "--yes")[:2] == (
        0, "deleted orders\ndeleted orders-retry\n",
    )  # fmt: skip
    assert [topic["topic"] for topic in asked("topic list")[1]] == ["compacted", "plain"]


def test_topics_chosen_by_expressions_are_not_touched_without_a_yes(
    asked: Asked, says: Says
) -> None:
    for words in (("delete",), ("alter", "-c", "retention.ms=7")):
        assert says("topic", words[0], "-r", "orders.*", *words[1:])[0] != 0
    assert "orders" in str(asked("topic list")[1])


def test_internal_topics_are_not_chosen_for_deletion(asked: Asked, says: Says) -> None:
    asked("group reset", "g", "--to-earliest", "--topic", "orders", "--execute")
    assert "__consumer_offsets" in str(asked("topic list", "-i")[1])
    assert says("topic", "delete", "-r", "__.*", "--yes")[0] == 4
    assert says("topic", "alter", "-r", "__.*", "-c", "segment.bytes=1048576", "--yes")[0] == 4
    assert "__consumer_offsets" in str(asked("topic list", "-i")[1])
