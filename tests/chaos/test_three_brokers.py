"""What a run of faults demands: each of them, and that clients get on meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.chaos.cluster import Ground
from tests.chaos.load import Pulse
from tests.chaos.nemesis import Nemesis
from tests.chaos.stored import StoredPartition
from tests.chaos.three_brokers import disturb, stood_still


def there(seed: int) -> Any:
    load = SimpleNamespace(pulse=Pulse(), tend=lambda: None)
    return SimpleNamespace(chance=Random(seed), load=load, until_whole=lambda: None)


def nemesis(name: str, operations: int, *, leaves_majority: bool = True) -> Nemesis:
    @contextmanager
    def fault(ground: Ground) -> Iterator[str]:
        for _ in range(operations):
            ground.load.pulse.beat()
        yield name

    return Nemesis(name, fault, leaves_majority)


def test_every_nemesis_comes_once_even_where_the_time_is_short_in_an_order_of_the_seed(
    capsys: Any,
) -> None:
    names = [f"n{number}" for number in range(6)]
    orders = []
    for seed in (1, 1, 2):
        rows = disturb(there(seed), [nemesis(name, 100) for name in names], seconds=0)
        assert [row.nemesis.name for row in rows] == names
        assert [row.operations for row in rows] == [[100]] * 6
        orders.append(capsys.readouterr().out)
    assert orders[0] == orders[1] != orders[2]


def test_too_few_operations_are_told_of_only_where_a_majority_was_left() -> None:
    nemeses = [nemesis("bad", 99), nemesis("good", 100), nemesis("all", 0, leaves_majority=False)]
    assert stood_still(disturb(there(1), nemeses, seconds=0)) == [
        "bad: 99 operations acknowledged, fewer than 100"
    ]


def test_a_partition_is_whole_with_a_leader_and_all_in_sync_and_none_on_the_move() -> None:
    whole = StoredPartition((1, 2), leader=2, isr=(2, 1), moving=False)
    assert whole.whole()
    assert not whole._replace(leader=-1).whole()
    assert not whole._replace(isr=(2,)).whole()
    assert not whole._replace(moving=True).whole()
