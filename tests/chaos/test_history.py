"""The judge of exactly-once finds each kind of what must not be."""

from collections.abc import Callable

import pytest

from tests.chaos.history import Copy, History, judge

EVEN, ODD = ("even", 0), ("odd", 0)


def sound() -> History:
    """Four records, two committed transactions, one given up."""
    history = History(acknowledged={0: [1, 3, 5, 7]})
    history.written[0] = [1, 3, 5, 7]
    for name, copies in (("a", 2), ("b", 2)):
        history.note({"transaction": name, "what": "commit?", "copies": copies})
        history.note({"transaction": name, "what": "committed"})
    history.note({"transaction": "c", "what": "aborted"})
    history.final = [
        Copy(EVEN, 0, (0, 0), "a"),
        Copy(ODD, 0, (0, 1), "a"),
        Copy(EVEN, 4, (0, 2), "b"),
        Copy(ODD, 4, (0, 3), "b"),
    ]
    history.seen["one"] = list(history.final)
    return history


def without(history: History, at: int) -> None:
    del history.final[at]
    history.seen.clear()


def lose(history: History) -> None:
    without(history, 3)


def lose_a_commit(history: History) -> None:
    without(history, 3)
    without(history, 2)


def lose_a_number(history: History) -> None:
    history.written[0].remove(3)


def double_a_number(history: History) -> None:
    history.written[0].append(7)


def swap_numbers(history: History) -> None:
    history.written[0] = [1, 5, 3, 7]


def double(history: History) -> None:
    history.final.append(Copy(EVEN, 9, (0, 0), "b"))


def read_aborted(history: History) -> None:
    history.final.append(Copy(EVEN, 9, (0, 9), "c"))


def commit_unasked(history: History) -> None:
    history.final.append(Copy(EVEN, 9, (0, 9), "unheard of"))


def see_what_goes(history: History) -> None:
    history.seen["two"] = [Copy(EVEN, 2, (0, 2), "c")]


def tear(history: History) -> None:
    history.note({"transaction": "b", "what": "commit?", "copies": 3})


def go_back(history: History) -> None:
    history.seen["one"].append(history.seen["one"][0])


def differ(history: History) -> None:
    history.seen["two"] = [Copy(EVEN, 0, (0, 0), "b")]


def test_a_sound_history_is_found_sound() -> None:
    verdict = judge(sound())
    assert verdict.holds(), str(verdict)
    assert (verdict.acknowledged, verdict.committed, verdict.copies) == (4, 2, 4)


@pytest.mark.parametrize(
    ("spoil", "count"),
    [
        (lose, "lost"),
        (lose_a_commit, "lost"),
        (lose_a_number, "lost"),
        (double, "duplicated"),
        (double_a_number, "duplicated"),
        (read_aborted, "aborted_reads"),
        (commit_unasked, "aborted_reads"),
        (see_what_goes, "aborted_reads"),
        (tear, "torn"),
        (swap_numbers, "wrong_order"),
        (go_back, "wrong_order"),
        (differ, "wrong_order"),
    ],
)
def test_what_must_not_be_is_found(spoil: Callable[[History], None], count: str) -> None:
    history = sound()
    spoil(history)
    verdict = judge(history)
    assert getattr(verdict, count) > 0
    assert not verdict.holds()
