"""`headrace consume --group` through a rebalance: which offsets are committed, and as whose."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from headrace.cli.records.consume_reader import Reader, ReadOptions
from headrace.client.admin.groups import Committed
from headrace.client.calls.offsets import EARLIEST
from headrace.client.consumer.consumer import Chunk
from headrace.client.sync import connect, run
from headrace.model.nouns import TopicPartition
from headrace.terminal.offset_positions import Place, resolve_places
from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import send

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class RebalancedMember:
    """A member that is assigned both partitions, then B alone."""

    group, member_id = "g", "m"

    def __init__(self) -> None:
        self.assignments: list[Sequence[TopicPartition]] = [[A, B], [B]]
        self.beats = [True, False, True]
        self.commits: list[Mapping[TopicPartition, Committed]] = []
        self.taken = True

    async def join(self) -> Sequence[TopicPartition]:
        return self.assignments.pop(0)

    async def heartbeat(self) -> bool:
        return self.beats.pop(0)

    async def commit(self, offsets: Mapping[TopicPartition, Committed]) -> bool:
        self.commits.append(dict(offsets))
        return self.taken

    async def leave(self) -> None:
        self.member_id = ""


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({"num.partitions": "2"}) as broker:
        for partition in (0, 1):
            send(broker.bootstrap, "t", 5, partition=partition)
        yield broker


def test_a_rebalance_commits_once_and_forgets_lost_partitions(broker: BrokerThread) -> None:
    member = RebalancedMember()
    printed: dict[TopicPartition, int] = {}
    options = ReadOptions(Place("time", EARLIEST), frozenset(), "g", False, False)
    with connect(broker.bootstrap) as client:
        reader = Reader(client, ["t"], options)
        reader.member = member  # type: ignore[assignment]
        reader.begin(None)
        while len(printed) < 2:
            member.beats.insert(0, True)
            for chunk in reader.poll(printed):
                printed[chunk.partition] = chunk.next_position
        member.beats = [False]
        for chunk in reader.poll(printed):
            printed[chunk.partition] = chunk.next_position
        reader.close(printed)
    assert member.commits[0] == {A: Committed(5), B: Committed(5)}
    # A is another member's now: committing its old offset would move the group back.
    assert all(A not in commit for commit in member.commits[1:])


def test_end_is_not_reached_after_a_rebalance_before_the_next_fetch(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = RebalancedMember()
    options = ReadOptions(Place("time", EARLIEST), frozenset(), "g", False, False)
    with connect(broker.bootstrap) as client:
        reader = Reader(client, ["t"], options)
        reader.member = member  # type: ignore[assignment]
        reader.begin(None)
        member.beats = [True] * 20
        while not reader.consumer.caught_up():
            reader.poll({})

        async def nothing_yet() -> list[Chunk]:
            return []

        monkeypatch.setattr(reader.consumer, "poll", nothing_yet)
        monkeypatch.setattr(reader, "_start", lambda assigned: dict.fromkeys(assigned, 5))
        member.beats = [False]
        reader.poll({})
        # Another member may have read B further meanwhile, and more may have been written.
        assert not reader.consumer.caught_up()


def test_a_commit_of_a_past_generation_is_told(
    broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ReadOptions(Place("time", EARLIEST), frozenset(), "g", False, False)
    member = RebalancedMember()
    member.taken = False
    with connect(broker.bootstrap) as client:
        reader = Reader(client, ["t"], options)
        reader.member = member  # type: ignore[assignment]
        reader.close({A: 5})
    assert "group g has rebalanced: offsets printed since" in capsys.readouterr().err


def test_a_partition_without_a_commit_goes_back_from_its_end(broker: BrokerThread) -> None:
    """As `group reset --shift-by -2` counts: from the commit, else from the end."""
    with connect(broker.bootstrap) as client:
        place = Place("before_end", 2)
        found = run(resolve_places(client, place, [A, B], {A: 4}))
    assert found == {A: 2, B: 3}
