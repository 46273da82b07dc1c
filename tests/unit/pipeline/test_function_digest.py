"""Digests of a project's functions: equal for equal code, other for other code behind them."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.plan.function_digest import function_digest

if TYPE_CHECKING:
    from pathlib import Path

CODE = '''
import functools
import json
import re
from decimal import Decimal

RATE = 2
TABLE = {"a": 1, "b": [2, 3]}
KINDS = frozenset({"x", "y"})
WORDS = re.compile("[a-z]+")

class Money:
    """Some money."""

    currency = "EUR"

    def of(self, value):
        return value + 1

def helper(value, by=1):
    """Return it."""
    return value * by

def made(limit):
    def inner(value):
        return value < limit
    return inner

below = made(10)
twice = functools.partial(helper, by=2)

def entry(value):
    # A comment.
    if value in KINDS or WORDS.match(value) or not below(value) or twice(value):
        return json.dumps(TABLE)
    return [helper(each) + RATE for each in Money().of(value)]
'''
CHANGES = [
    ("RATE = 2", "RATE = 3"),
    ('"b": [2, 3]', '"b": [2, 4]'),
    ('{"x", "y"}', '{"x", "z"}'),
    ('"[a-z]+"', '"[A-Z]+"'),
    ("value + 1", "value + 2"),
    ('currency = "EUR"', 'currency = "USD"'),
    ("value * by", "value / by"),
    ("by=1", "by=3"),
    ("value < limit", "value <= limit"),
    ("made(10)", "made(11)"),
    ("by=2", "by=4"),
    ("json.dumps", "json.loads"),
    ("+ RATE", "- RATE"),
]
names = itertools.count()


def digest(directory: Path, code: str, name: str = "entry") -> str:
    directory.mkdir(exist_ok=True)
    file = directory / f"module_{next(names)}.py"
    file.write_text(code)
    specification = importlib.util.spec_from_file_location("shop_under_test", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["shop_under_test"] = module
    try:
        specification.loader.exec_module(module)
        return function_digest(getattr(module, name), directory)
    finally:
        del sys.modules["shop_under_test"]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_change_that_the_function_reaches_changes_its_digest(
    tmp_path: Path, old: str, new: str
) -> None:
    text = CODE.replace(old, new)
    assert text != CODE
    assert digest(tmp_path, text) != digest(tmp_path, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# A comment.", "# Another."),
        ('"""Return it."""', '"""Return the value."""'),
        ("\nRATE", "\n\n\nUNUSED = 5\nRATE"),
        ("def made", "def unused():\n    return 1\n\ndef made"),
        ("    return value * by", "    return value*by"),
    ],
)
def test_a_change_that_the_function_does_not_reach_keeps_its_digest(
    tmp_path: Path, old: str, new: str
) -> None:
    text = CODE.replace(old, new)
    assert text != CODE
    assert digest(tmp_path, text) == digest(tmp_path, CODE)


def test_functions_that_call_each_other_have_a_digest(tmp_path: Path) -> None:
    code = "def entry(v):\n    return other(v)\ndef other(v):\n    return v and entry(v - {})\n"
    assert digest(tmp_path, code.format(1)) != digest(tmp_path, code.format(2))


def test_lambdas_have_digests_of_their_text(tmp_path: Path) -> None:
    code = "entry = lambda v: v + {}\n"
    assert digest(tmp_path, code.format(1)) != digest(tmp_path, code.format(2))
    assert digest(tmp_path, code.format(1)) == digest(tmp_path, "# first\n" + code.format(1))


def test_functions_of_installed_packages_count_by_name(tmp_path: Path) -> None:
    assert function_digest(json.dumps, tmp_path) != function_digest(json.loads, tmp_path)
    assert function_digest(json.dumps, tmp_path) == function_digest(json.dumps, tmp_path)
