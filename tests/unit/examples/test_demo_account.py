"""The closing balance: it holds only when nothing is missing and nothing is there twice."""

import dataclasses

import pytest

from headrace.pipeline import Account, Unbalanced

EVEN = Account(fed=1000, stored=1000, damaged=7, written=993, quarantined=7, windowed=993)


def test_an_account_that_balances_passes() -> None:
    EVEN.check()


@pytest.mark.parametrize("name", ["fed", "stored", "damaged", "written", "quarantined", "windowed"])
@pytest.mark.parametrize("step", [-1, 1])
def test_one_record_too_few_or_too_many_anywhere_is_noticed(name: str, step: int) -> None:
    odd = dataclasses.replace(EVEN, **{name: getattr(EVEN, name) + step})
    with pytest.raises(Unbalanced):
        odd.check()


def test_the_message_says_which_sums_differ() -> None:
    lost = dataclasses.replace(EVEN, windowed=990)
    assert lost.differences() == ["990 in windows but 993 written"]
