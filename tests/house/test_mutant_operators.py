"""The operators of `make mutants`: the small changes that make a fault."""

import ast
from textwrap import dedent

import pytest

from tests.mutants.draw import faults_of
from tests.mutants.faults import with_drawn
from tests.mutants.operators import KINDS

FILE = "src/headrace/room/file.py"


def drawn(source: str, kind: str) -> list[str]:
    """The new lines of every fault of `kind` in `source`."""
    found = faults_of(FILE, dedent(source), {kind: KINDS[kind]})
    for fault in found:
        ast.parse(with_drawn(dedent(source), fault))
    return [fault.new.strip() for fault in found]


@pytest.mark.parametrize(
    ("source", "kind", "new"),
    [
        ("a < b", "comparison", ["a <= b"]),
        ("a <= b", "comparison", ["a < b"]),
        ("a == b", "comparison", ["a != b"]),
        ("a is not b", "comparison", ["a is b"]),
        ("a not in b", "comparison", ["a in b"]),
        ("a < b > c", "comparison", ["a < b >= c", "a <= b > c"]),
        ("a and b", "and/or", ["a or b"]),
        ("a or b or c", "and/or", ["a and b or c", "a or b and c"]),
        ("a = 7", "constant", ["a = 6", "a = 8"]),
        ("a = 0", "constant", ["a = (-1)", "a = 1"]),
        ("a = True", "constant", []),
        ("a = b + c", "operand", ["a = b + (c + 1)", "a = b + (c - 1)"]),
        ("a = 'text' + c", "operand", []),
        ("a.close(b)", "dropped call", ["pass"]),
        ("async def f():\n    await a.close()", "dropped call", ["pass"]),
        ("f(a, b)", "swapped arguments", ["f(b, a)"]),
        ("f(a, b, c)", "swapped arguments", ["f(a, c, b)", "f(b, a, c)"]),
        ("f(a, a)", "swapped arguments", []),
        ("f(*a, b)", "swapped arguments", []),
        ("min(a, b)", "swapped arguments", []),
        ("a = not b", "not", ["a = b"]),
        ("a = not (b or c) or d", "not", ["a = (b or c) or d"]),
        ("def f():\n    return True", "return", ["return False"]),
        ("def f():\n    return None", "return", []),
        ("f(a, b=True)", "boolean", ["f(a, b=False)"]),
        ("a.b = False", "boolean", ["a.b = True"]),
        ("if a:\n    b()", "condition", ["if False:", "if True:"]),
        ("while a:\n    b()", "condition", ["while False:"]),
        ("[a for a in b if c]", "condition", ["[a for a in b if False]", "[a for a in b if True]"]),
        ("a and (b or c)", "dropped operand", ["(a)", "(b or c)", "a and ((b))", "a and ((c))"]),
        ("a / 1000", "dropped factor", ["(a)"]),
        ("a.b = c", "dropped statement", ["pass"]),
        ("a = b", "dropped statement", []),
        ("try:\n    a()\nexcept B:\n    raise", "dropped statement", ["pass"]),
        ("f(a, b=c)", "dropped keyword", ["f(a)"]),
        ("f(a=b, c=d)", "dropped keyword", ["f(a=b)", "f(c=d)"]),
        ("a in (b, c)", "dropped element", ["a in (b,)", "a in (c,)"]),
        ("{a, b}", "dropped element", ["{a}", "{b}"]),
        ("for a in b:\n    c()", "first only", ["for a in list(b)[:1]:"]),
        (
            "a is State.OPEN or State.SHUT",
            "member",
            ["a is State.OPEN or State.OPEN", "a is State.SHUT or State.SHUT"],
        ),
        ("def f() -> None:\n    a()", "empty body", ["pass"]),
        ("def f() -> int:\n    return a()", "empty body", []),
    ],
)
def test_each_kind_of_fault_is_drawn_as_it_says(source: str, kind: str, new: list[str]) -> None:
    assert sorted(drawn(source, kind)) == new


@pytest.mark.parametrize(
    "source",
    [
        '"""a < 1"""',
        "a: int[1 < 2]",
        "def f(a: g(1, 2)) -> g(3, 4): ...",
        "@g(1, 2)\ndef f(): ...",
        "def __repr__(self):\n    return 1 < 2",
        "@njit(cache=True)\ndef f():\n    return 1 < 2",
        "_logger.info('said', 1, 2)",
        "invariant(1 < 2, 'holds')",
        "f'{a < 1}'",
        "if TYPE_CHECKING:\n    f(1, 2)",
    ],
)
def test_words_types_and_what_always_holds_are_left_alone(source: str) -> None:
    assert faults_of(FILE, source) == []


def test_two_statements_that_act_are_exchanged_as_they_stand() -> None:
    source = "def f():\n    a.b()\n    c.d = 1\n    e = 2\n    with a:\n        b()\n    c()\n"
    exchanged = drawn(source, "reordered")
    assert exchanged == ["c.d = 1\n    a.b()", "c()\n    with a:\n        b()"]
