"""Who waits for a partition: in which order they are told."""

from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from tests.support.processes.broker import append
from tests.unit.broker.test_partition import Place


def test_who_asks_from_a_callback_is_told_behind_those_who_asked_before() -> None:
    place = Place()
    order: list[str] = []

    def first(_: ApiError | None) -> None:
        order.append("first")
        place.partition.when_committed(Offset(1), lambda _: order.append("asked by the first"))

    append(place.partition)
    place.partition.when_committed(Offset(1), first)
    place.partition.when_committed(Offset(1), lambda _: order.append("second"))
    place.flush()
    assert order == ["first", "second", "asked by the first"]
