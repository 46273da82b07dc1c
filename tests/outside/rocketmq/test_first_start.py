"""Where groups of RocketMQ's own consumer begin, by each rule, and what resets do.

`python -m tests.outside.rocketmq.first_start` plays the same cases and writes the table, which has
what RocketMQ 5.5.0 and 4.9.7 do, and from it the page of the docs.
"""

from collections.abc import Callable
from functools import cache

import pytest

from tests.outside.rocketmq.first_start.ours import play_rule
from tests.outside.rocketmq.jvm import has_maven
from tests.support.rocketmq.recorded_starts import Case, observed, of_original

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_maven(), reason="needs Maven and a JDK"),
    pytest.mark.timeout(1500),
]
YOUNG = "1-new-group-young-topic"
TEN = "queue added, ten messages sent before the group has it"
GROWN = "3-queues-3-to-6-under-load"

Played = Callable[[str], dict[Case, str]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The outcomes of all cases with a rule, played once."""
    return cache(lambda rule: play_rule(rule, tmp_path_factory.mktemp(rule)))


def outcomes(found: dict[Case, str], name: str, setting: str = "LAST") -> list[str]:
    """Return the outcomes of the cases of a name with a setting."""
    return [what for case, what in found.items() if (case.name, case.setting) == (name, setting)]


@pytest.mark.parametrize("rule", ["5", "4.9"])
def test_groups_begin_and_go_on_as_on_the_rules_rocketmq(played: Played, rule: str) -> None:
    """All cases that were recorded there, but for those with a reason in the table."""
    found = played(rule)
    expected = of_original(rule)
    assert {case: found.get(case) for case in expected} == expected
    assert found == observed(rule)


def test_new_queue_replays_no_young_topic_and_skips_nothing_of_an_added_queue(
    played: Played,
) -> None:
    found = played("new-queue")
    (young,) = outcomes(found, YOUNG)
    assert young.startswith("old delivered 0, later sent delivered 6/6")
    assert outcomes(found, TEN) == ["delivered 10/10, next 2/2"]
    (grown,) = outcomes(found, GROWN)
    assert grown.startswith("missed 0 ")
    assert found == observed("new-queue")


def test_off_skips_the_ten_messages_that_came_before_the_group_had_the_queue(
    played: Played,
) -> None:
    found = played("off")
    assert outcomes(found, TEN) == ["delivered 0/10, next 2/2"]
    (young,) = outcomes(found, YOUNG)
    assert young.startswith("old delivered 0, later sent delivered 6/6")
    assert found == observed("off")
