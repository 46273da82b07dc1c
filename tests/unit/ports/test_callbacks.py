"""Callbacks: several answers make one, and it is given once."""

from headrace.ports.callbacks import first_error, gather, when_all


def test_when_all_calls_with_the_last_and_at_once_where_nothing_is_waited_for() -> None:
    calls: list[int] = []
    called = when_all(3, lambda: calls.append(1))
    called()
    called("whatever it is told")
    assert calls == []
    called()
    assert calls == [1]
    when_all(0, lambda: calls.append(2))
    assert calls == [1, 2]


def test_the_first_error_is_told_but_not_before_all_have_answered() -> None:
    told: list[str | None] = []
    answered = first_error(3, told.append)
    answered(None)
    answered("first")
    assert told == []
    answered("second")
    assert told == ["first"]


def test_no_error_is_told_as_none() -> None:
    told: list[str | None] = []
    answered = first_error(2, told.append)
    answered(None)
    answered(None)
    first_error(0, told.append)
    assert told == [None, None]


def test_every_answer_is_gathered_by_its_key_and_the_last_of_a_key_counts() -> None:
    told: list[dict[str, int]] = []
    answered = gather(3, told.append)
    answered("a", 1)
    answered("b", 2)
    assert told == []
    answered("a", 3)
    assert told == [{"a": 3, "b": 2}]
    gather(0, told.append)
    assert told[1] == {}
