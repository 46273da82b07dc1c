"""SQL92 filters against a second evaluation of the same tree, and against random text."""

from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from headrace.subscriptions.sql.parser import sql_filter
from headrace.subscriptions.sql.tokens import FilterInvalid

Truth = Callable[[Mapping[str, int]], bool | None]
Tree = tuple[str, Truth]
"""An expression, and its meaning for messages whose properties are integers."""
NAMES = st.sampled_from("abc")
NUMBERS = st.integers(-3, 3)
ORDERS: dict[str, Callable[[int, int], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _order(name: str, symbol: str, number: int) -> Tree:
    holds = ORDERS[symbol]
    return f"{name}{symbol}{number}", lambda has: holds(has[name], number) if name in has else None


def _between(name: str, low: int, size: int, inverse: bool) -> Tree:
    word = "NOT BETWEEN" if inverse else "between"
    return (
        f"{name} {word} {low} AND {low + size}",
        lambda has: (low <= has[name] <= low + size) is not inverse if name in has else None,
    )


def _in(name: str, numbers: list[int], inverse: bool) -> Tree:
    texts = ",".join(f"'{number}'" for number in numbers)
    return (
        f"{name} {'NOT ' if inverse else ''}IN({texts})",
        lambda has: (has[name] in numbers) is not inverse if name in has else None,
    )


def _is_null(inner: Tree) -> Tree:
    text, truth = inner
    return f"(({text}) IS NULL)", lambda has: truth(has) is None


def _not(inner: Tree) -> Tree:
    text, truth = inner

    def inverted(has: Mapping[str, int]) -> bool | None:
        found = truth(has)
        return None if found is None else not found

    return f"NOT ({text})", inverted


def _joined(parts: list[Tree], word: str) -> Tree:
    deciding = word == "OR"

    def truth(has: Mapping[str, int]) -> bool | None:
        found = [part(has) for _, part in parts]
        if deciding in found:
            return deciding
        return None if None in found else not deciding

    return "(" + f" {word} ".join(text for text, _ in parts) + ")", truth


LEAVES = st.one_of(
    st.builds(_order, NAMES, st.sampled_from(sorted(ORDERS)), NUMBERS),
    st.builds(_between, NAMES, NUMBERS, st.integers(0, 3), st.booleans()),
    st.builds(_in, NAMES, st.lists(NUMBERS, min_size=1, max_size=3), st.booleans()),
    st.sampled_from([("TRUE", lambda has: True), ("FALSE", lambda has: False)]),
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(_not, inner),
        st.builds(_is_null, inner),
        st.builds(_joined, st.lists(inner, min_size=2, max_size=4), st.sampled_from(["AND", "OR"])),
    ),
    max_leaves=12,
)
WORDS = st.sampled_from(
    [
        "a", "b", "5", "5.5", "'x'", "'5'", "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "+",
        "-", "AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "TRUE", "FALSE", "CONTAINS",
        "STARTSWITH", "ENDSWITH", "--", "/*", "*/", "'", "1e3", "9223372036854775807",
    ]
)  # fmt: skip


@given(TREES, st.dictionaries(NAMES, NUMBERS))
def test_a_filter_delivers_what_its_tree_says(tree: Tree, numbers: dict[str, int]) -> None:
    text, truth = tree
    properties = {name: str(number) for name, number in numbers.items()}
    assert sql_filter(text).wants(properties) is (truth(numbers) is True)


@given(
    st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map(" ".join)),
    st.dictionaries(st.sampled_from("ab"), st.text(max_size=5)),
)
def test_random_text_is_a_filter_or_one_error(text: str, properties: dict[str, str]) -> None:
    try:
        found = sql_filter(text)
    except FilterInvalid:
        return
    assert found.wants(properties) in {True, False}
