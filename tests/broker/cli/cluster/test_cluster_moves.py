"""`headrace cluster elect-leaders` and `reassign`: outcomes, progress, and the end of throttles."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from headrace.cli.cluster import reassign
from headrace.client import move_progress
from headrace.client.admin import replicas
from headrace.client.admin.replicas import Reassigning
from headrace.client.move_progress import Copy
from headrace.model.errors import BEING_DELETED, STORE_UNANSWERED, ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import line_of
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import asker, sayer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MOVES = [Reassigning(T0, (4, 1), (4,), ()), Reassigning(T1, (5, 1), (5,), ())]


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("t", partitions=2)
        yield started


class Cluster:
    """Answers of a controller with running moves; calling off removes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *running: Reassigning) -> None:
        self.running = list(running)
        self.ended: list[list[str]] = []
        self.errors: dict[TopicPartition, ApiError] = {}
        monkeypatch.setattr(replicas, "reassign", self._reassign)
        monkeypatch.setattr(replicas, "reassignments", self._reassignments)
        monkeypatch.setattr(reassign, "_end_throttles", self._end_throttles)

    async def _reassign(
        self, client: object, wanted: Mapping[TopicPartition, object]
    ) -> dict[TopicPartition, ApiError | None]:
        done = {partition: self.errors.get(partition) for partition in wanted}
        gone = [partition for partition, error in done.items() if error is None]
        self.running = [move for move in self.running if move.partition not in gone]
        return done

    async def _reassignments(self, client: object) -> list[Reassigning]:
        return self.running

    def _end_throttles(self, client: object, topics: Any, brokers: object) -> None:
        self.ended.append(sorted(topics))


@pytest.mark.parametrize(
    ("cancelled", "ended"), [(["t:0"], []), (["t:0", "t:1"], [["t"]])], ids=["one of two", "both"]
)
def test_cancelling_ends_the_throttles_with_the_last_move(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    cancelled: list[str], ended: list[list[str]],
) -> None:  # fmt: skip
    cluster = Cluster(monkeypatch, *MOVES)
    says = sayer(broker.bootstrap, capsys)
    code, text, _ = says("cluster", "reassign", "--cancel", *cancelled)
    assert (code, text) == (0, "".join(f"{name} is not moved\n" for name in cancelled))
    assert cluster.ended == ended


def test_cancelling_that_failed_keeps_the_throttles(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.errors[T1] = ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "would be unclean")
    code, _, remarks = sayer(broker.bootstrap, capsys)("cluster", "reassign", "--cancel", "t:1")
    assert (code, cluster.ended) == (1, [])
    assert remarks.startswith("headrace: t:1: would be unclean [INVALID_REPLICA_ASSIGNMENT]\n")


@pytest.mark.parametrize("running", [MOVES, MOVES[1:], []], ids=["two", "another's", "none"])
def test_verify_ends_the_throttles_only_when_nothing_moves(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    running: list[Reassigning],
) -> None:  # fmt: skip
    cluster = Cluster(monkeypatch, *running)
    code, _, _ = sayer(broker.bootstrap, capsys)("cluster", "reassign", "--verify", "t")
    assert (code, cluster.ended) == ((1, []) if running else (0, [["t"]]))


def test_moves_are_listed_with_how_far_each_added_replica_is(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def progress(client: object, moving: Sequence[Reassigning]) -> Any:
        return {T0: [Copy(4, 800, 370, 1000)], T1: [Copy(5, None, None, 1000)]}

    Cluster(monkeypatch, *MOVES)
    monkeypatch.setattr(move_progress, "of_moves", progress)
    says = sayer(broker.bootstrap, capsys)
    code, text, _ = says("cluster", "reassign", "--list")
    head, first, second = text.splitlines()
    assert (code, head.split()[-1]) == (0, "COPIED")
    assert first.endswith("4: 37 %, 800 behind")
    assert second.endswith("5: not known")
    _, rows = asker(says)("cluster reassign", "--list")
    found = rows if isinstance(rows[0], dict) else rows[0]
    assert found[0]["progress"] == [{"broker": 4, "lag": 800, "bytes": 370, "leader_bytes": 1000}]


@pytest.mark.parametrize(
    ("copy", "percent"),
    [
        (Copy(4, 0, 10, 10), 100),
        (Copy(4, 5, 10, 10), 99),
        (Copy(4, 0, 12, 10), 100),
        (Copy(4, 0, 0, 0), 100),
        (Copy(4, 9, 1, 3), 33),
        (Copy(4, 9, None, 3), None),
        (Copy(4, 9, 3, None), None),
    ],
)
def test_a_copy_is_whole_only_when_it_lacks_no_offset(copy: Copy, percent: int | None) -> None:
    assert copy.percent == percent


def test_a_partition_led_by_the_preferred_replica_needs_no_election(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    says = sayer(broker.bootstrap, capsys)
    text = "t:0 is already led by the preferred replica\n"
    assert says("cluster", "elect-leaders", "t:0") == (0, text, "")
    assert says("cluster", "elect-leaders", "--unclean", "t:0")[:2] == (
        0, "t:0 already has a leader\n",
    )  # fmt: skip
    code, rows = asker(says)("cluster elect-leaders", "t")
    assert (code, [row["elected"] for row in rows]) == (0, [False, False])


def test_an_election_that_fails_gives_no_advice_for_readers(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elect(*_: object) -> Any:
        needless = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        return {T0: ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log"), T1: needless}

    monkeypatch.setattr(replicas, "elect_leaders", elect)
    code, text, remarks = sayer(broker.bootstrap, capsys)("cluster", "elect-leaders")
    assert (code, text) == (1, "t:1 is already led by the preferred replica\n")
    assert remarks.splitlines() == [
        "headrace: t:0: no log [KAFKA_STORAGE_ERROR]", "headrace: 1 partition of 2 failed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ApiError(ErrorCode.NOT_CONTROLLER, f"{STORE_UNANSWERED} 1 since now"), "that ZooKeeper"),
        (
            ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic t: {BEING_DELETED}"),
            "headrace cluster health",
        ),
        (ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."), "--if-not-exists"),
    ],
)
def test_advice_fits_the_cause_and_not_the_code_alone(error: ApiError, advice: str) -> None:
    line, _ = line_of(error)
    assert advice in line
    assert "unix:" not in line
    assert ("--if-not-exists" in line) == (advice == "--if-not-exists")
