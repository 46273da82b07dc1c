"""Each rule of declared pipelines, and of RocketMQ's clients, has tests that exist."""

import pytest

from tests.support import pipeline_rules
from tests.support.named_rules import missing
from tests.support.rocketmq import rules as remoting_rules

RULES_IN_ALL = 28


@pytest.mark.parametrize("number", sorted(pipeline_rules.RULES))
def test_each_rule_of_pipelines_has_its_test(number: int) -> None:
    assert pipeline_rules.RULES[number].tests
    assert missing(pipeline_rules.RULES[number].tests) == []


@pytest.mark.parametrize("number", sorted(remoting_rules.RULES))
def test_each_rule_of_rocketmq_has_its_test(number: int) -> None:
    assert remoting_rules.RULES[number].tests
    assert missing(remoting_rules.RULES[number].tests) == []


def test_no_rule_is_left_out() -> None:
    for rules, not_yet, count in (
        (pipeline_rules.RULES, pipeline_rules.NOT_YET, RULES_IN_ALL),
        (remoting_rules.RULES, remoting_rules.NOT_YET, remoting_rules.RULES_IN_ALL),
    ):
        assert set(rules) | set(not_yet) == set(range(1, count + 1))
        assert not set(rules) & set(not_yet)


def test_a_test_that_does_not_exist_is_found() -> None:
    own = "tests/house/test_pipeline_rules.py"
    tests = (f"{own}::test_no_rule_is_left_out", f"{own}::test_gone", "tests/gone.py::test_gone")
    assert missing(tests) == [f"{own}::test_gone", "tests/gone.py::test_gone"]
