"""The closing balance: each sum that differs is named, and none is taken for another."""

import pytest

from headrace.pipeline import Account, Unbalanced

EVEN = {"fed": 10, "stored": 10, "damaged": 3, "written": 7, "quarantined": 3, "windowed": 7}


def test_account_whose_sums_agree_balances() -> None:
    Account(**EVEN).check()


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"stored": 9}, ["9 in the topic but 10 fed"]),
        ({"damaged": 2}, ["3 quarantined but 2 damaged"]),
        ({"windowed": 8}, ["8 in windows but 7 written"]),
        ({"fed": 11, "stored": 11}, ["10 written + quarantined but 11 fed"]),
        ({"written": 8, "quarantined": 2},
         ["2 quarantined but 3 damaged", "7 in windows but 8 written"]),
    ],
)  # fmt: skip
def test_each_sum_that_differs_is_said_in_its_order(
    counts: dict[str, int], said: list[str]
) -> None:
    account = Account(**EVEN | counts)
    assert account.differences() == said
    with pytest.raises(Unbalanced, match="; ".join(said).replace("+", r"\+")):
        account.check()
