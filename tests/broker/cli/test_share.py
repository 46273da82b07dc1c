"""`headrace share`: groups, where they begin, and moving that."""

from collections.abc import Iterator

import pytest

from headrace.testing import BrokerThread
from tests.support.coordination.share import ShareMember
from tests.support.processes.cli_kit import Asked, Says, send


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", partitions=2)
        send(started.bootstrap, "orders", 10)
        yield started


def test_a_share_group_is_listed_described_reset_and_deleted(
    asked: Asked, says: Says, broker: BrokerThread
) -> None:
    assert says("share", "list") == (0, "", "no share groups\n")
    with ShareMember(broker.bootstrap, "workers", "AAAAAAAAAAAAAAAAAAAAAA") as member:
        member.join("orders").stay_until_assigned(2)
        _, (listed,) = asked("share list")
        assert (listed["group"], listed["state"]) == ("workers", "Stable")
        code, (found, missing) = asked("share describe", "workers", "x")
        assert (code, missing["error"]["code"]) == (4, "NOT_FOUND")
        assert len(found["members"][0]["partitions"]) == 2
        assert "MEMBER" in says("share", "describe", "workers")[1]
        code, answer = asked("share reset", "workers", "--to", "end", "--topics", "orders",
                             "--execute")  # fmt: skip
        assert (code, "has 1 member; stop them first" in answer["error"]["message"]) == (1, True)
        member.leave()
    _, planned = asked("share reset", "workers", "--to", "4", "--topics", "orders:0")
    assert (planned["dry_run"], planned["partitions"][0]["to_offset"]) == (True, 4)
    assert asked("share reset", "workers", "--to", "4", "--topics", "orders:0", "--execute")[0] == 0
    _, (found,) = asked("share describe", "workers")
    starts = {row["partition"]: row["start_offset"] for row in found["partitions"]}
    assert starts[0] == 4
    _, moved = asked("share reset", "workers", "--to", "start", "--execute")
    assert {row["to_offset"] for row in moved["partitions"]} == {0}
    assert {row["partition"]: row["from_offset"] for row in moved["partitions"]} == starts
    code, (gone, missing) = asked("share delete", "workers", "x")
    assert (code, gone["deleted"], missing["deleted"]) == (4, True, False)
    assert asked("share list")[1] == []


@pytest.mark.parametrize(("words", "code", "said"), [
    ("describe", 2, "name at least one share group"),
    ("delete", 2, "name at least one share group"),
    ("reset workers --to +3", 2, "must be start, end, a number or @time"),
    ("reset workers --to start", 4, "there is no share group workers"),
    ("reset workers --to start --topics nothing", 4, "there is no topic nothing"),
])  # fmt: skip
def test_a_slip_is_named_with_its_remedy(words: str, code: int, said: str, says: Says) -> None:
    found = says("share", *words.split())
    assert (found[0], said in found[2]) == (code, True), found
