"""Parked pulls by group: all of a group are woken, and none is left behind."""

from headrace.frontends.rocketmq.pulling.parked_pulls import ParkedPulls


def test_the_pulls_of_a_group_are_woken_and_no_others() -> None:
    parked, woken = ParkedPulls(), list[str]()

    def one() -> None:
        woken.append("one")
        parked.remove("g", one)

    def two() -> None:
        woken.append("two")

    parked.add("g", one)
    parked.add("g", two)
    parked.add("other", lambda: woken.append("other"))
    parked.wake("g")
    parked.wake("nobody")
    assert woken == ["one", "two"]
    parked.wake("g")
    assert woken == ["one", "two", "two"]
    parked.remove("g", two)
    parked.remove("g", two)
    parked.remove("nobody", two)
    assert len(parked) == 1
