"""Each rule of declared pipelines has tests, which `make pipeline-test` runs."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.pipeline_rules import NOT_YET, RULES

ROOT = Path(__file__).parents[2]
RULES_IN_ALL = 28


@cache
def names_in(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = ast.parse(file.read_text()).body
    return frozenset(node.name for node in found if isinstance(node, ast.FunctionDef))


def missing(tests: tuple[str, ...]) -> list[str]:
    """The tests that do not exist."""
    split = (test.partition("::") for test in tests)
    return [f"{path}::{name}" for path, _, name in split if name not in names_in(path)]


@pytest.mark.parametrize("number", sorted(RULES))
def test_each_rule_of_pipelines_has_its_test(number: int) -> None:
    assert RULES[number].tests
    assert missing(RULES[number].tests) == []


def test_no_rule_is_left_out() -> None:
    assert set(RULES) | set(NOT_YET) == set(range(1, RULES_IN_ALL + 1))
    assert not set(RULES) & set(NOT_YET)


def test_a_test_that_does_not_exist_is_found() -> None:
    own = "tests/house/test_pipeline_rules.py"
    tests = (f"{own}::test_no_rule_is_left_out", f"{own}::test_gone", "tests/gone.py::test_gone")
    assert missing(tests) == [f"{own}::test_gone", "tests/gone.py::test_gone"]
