"""The recorded starts of RocketMQ's groups, and the page of the docs that shows them."""

import pytest

from tests.outside.rocketmq.first_start import docs
from tests.support.rocketmq.recorded_starts import (
    COLUMNS,
    ORIGINALS,
    RULES,
    observed,
    of_original,
    rows,
)


def test_the_page_has_the_recorded_table() -> None:
    assert docs.PAGE.read_text("utf-8") == docs.page(), (
        "write it: python -m tests.outside.rocketmq.first_start"
    )


@pytest.mark.parametrize("rule", ORIGINALS)
def test_headrace_does_what_the_rules_rocketmq_does(rule: str) -> None:
    expected = of_original(rule)
    assert len(expected) >= 30
    found = observed(rule)
    assert {case: found[case] for case in expected} == expected


def test_each_reason_for_a_difference_has_one() -> None:
    for row in rows():
        for rule in row.differs:
            assert row.found[rule] != row.found[ORIGINALS[rule]], row.case


def test_each_start_was_played_with_each_rule() -> None:
    starts = [row for row in rows() if "off" in row.found]
    assert len(starts) >= 40
    for row in starts:
        missing = set(COLUMNS) - set(row.found)
        is_foreign = "sent by" in row.case.name and "rocketmq" not in row.case.name
        assert missing <= (set(ORIGINALS.values()) if is_foreign else set()), row.case
    assert all(set(RULES) & set(row.found) for row in rows())
