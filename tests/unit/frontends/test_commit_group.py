"""How long requests waited for the disk is told once for all of a group."""

from collections.abc import Callable
from typing import Any, cast

from headrace.frontends.kafka.produce.commit_group import CommitGroup
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.observe.metrics import ApiStats
from headrace.ports.deadlines import Deadlines

Told = Callable[[ApiError | None], None]


class Committing:
    """A partition that says so when it is told to."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def when_committed(self, _: Offset, told: Told) -> None:
        self.told.append(told)


class Plain:
    """A route that only counts."""

    version = 9

    def __init__(self) -> None:
        self.stats = ApiStats()

    def framed(self, _: int, body: Any) -> Any:
        return body


class NoDeadlines(Deadlines):
    """Nobody's time is up here."""

    def __init__(self) -> None:
        """Have no clock."""

    def add(self, *_: object) -> None:
        pass


def test_the_wait_is_counted_from_the_groups_beginning() -> None:
    now, partition, route = [10.0], Committing(), Plain()
    group = CommitGroup(lambda: now[0])
    assert group.fits(route)
    group.take(cast("Any", partition), Offset(3), 1000, b"body")
    group.answers.append(b"answer")
    group.watch(NoDeadlines())
    now[0] = 10.25
    assert route.stats.latency.count == 0
    partition.told[0](None)
    assert (route.stats.latency.count, route.stats.latency.seconds) == (1, 0.25)
