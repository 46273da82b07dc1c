"""The policy of each object by priority, name, type, keys and pattern, against a plain loop."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import regex
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.policies import matching
from headrace.queues.model.policies.matching import PolicyTable
from headrace.queues.model.policies.policy import AppliesTo, Policy

NOT_FOR: dict[QueueType, set[str]] = {
    QueueType.CLASSIC: {
        "max-age", "stream-max-segment-size-bytes", "initial-cluster-size", "delivery-limit",
        "dead-letter-strategy", "max-in-memory-length", "max-in-memory-bytes",
        "target-group-size",
    },
    QueueType.QUORUM: {
        "queue-mode", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size",
    },
    QueueType.STREAM: {
        "expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "max-length",
        "max-in-memory-length", "max-in-memory-bytes", "overflow", "queue-mode", "delivery-limit",
        "dead-letter-strategy", "target-group-size",
    },
}  # fmt: skip
"""RabbitMQ's `unsupported_policies` of each queue type."""
TYPES: dict[QueueType, set[AppliesTo]] = {
    QueueType.CLASSIC: {AppliesTo.ALL, AppliesTo.QUEUES, AppliesTo.CLASSIC_QUEUES},
    QueueType.QUORUM: {AppliesTo.ALL, AppliesTo.QUEUES, AppliesTo.QUORUM_QUEUES},
    QueueType.STREAM: {AppliesTo.ALL, AppliesTo.QUEUES, AppliesTo.STREAMS},
}
DEFINITIONS: list[dict[str, object]] = [
    {"max-length": 1},
    {"max-length-bytes": 1},
    {"max-age": "1D", "max-length-bytes": 1},
    {"delivery-limit": 3},
    {"queue-mode": "lazy"},
    {"alternate-exchange": "x"},
    {"dead-letter-exchange": "x", "message-ttl": 5},
]
NAMES = st.text("ab.-", max_size=6)
PIECES = ["a", "b", "ab", r"\.", "-", "[ab]", ".", ".*", "(a|b)+", "b?", "(?:ab){2}", r"a\-b"]


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Patterns that mean the same to RE2 and to Python."""
    start, end = draw(st.sampled_from(["", "^"])), draw(st.sampled_from(["", "$", ".*"]))
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=3))
    return f"{start}{''.join(pieces)}{end}"


@st.composite
def policy_lists(draw: st.DrawFn) -> list[Policy]:
    names = draw(st.lists(st.text("pqr", min_size=1, max_size=4), unique=True, max_size=40))
    return [
        Policy(
            name,
            draw(patterns()),
            draw(st.sampled_from(DEFINITIONS)),
            draw(st.sampled_from([-1, 0, 0.5, 1, 7])),
            draw(st.sampled_from(list(AppliesTo))),
        )
        for name in names
    ]


def first(policies: list[Policy], name: str, queue_type: QueueType | None) -> Policy | None:
    """Return the policy of an object, by a plain loop with Python's expressions."""
    chosen: Policy | None = None
    for policy in policies:
        if queue_type is None:
            applies = policy.applies_to in {AppliesTo.ALL, AppliesTo.EXCHANGES}
        else:
            applies = policy.applies_to in TYPES[queue_type] and not (
                NOT_FOR[queue_type] & policy.definition.keys()
            )
        if not applies or re.search(policy.pattern, name) is None:
            continue
        if (
            chosen is None
            or policy.priority > chosen.priority
            or (policy.priority == chosen.priority and policy.name < chosen.name)
        ):
            chosen = policy
    return chosen


@given(
    policy_lists(),
    policy_lists(),
    st.lists(NAMES, min_size=1, max_size=8),
    st.sampled_from([None, *QueueType]),
)
def test_policy_of_an_object_is_the_first_of_a_plain_loop(
    policies: list[Policy],
    operators: list[Policy],
    names: list[str],
    queue_type: QueueType | None,
) -> None:
    table = PolicyTable(policies, operators)
    for name in names:
        found = table.of_exchange(name) if queue_type is None else table.of_queue(name, queue_type)
        assert found.policy == first(policies, name, queue_type)
        assert found.operator_policy == first(operators, name, queue_type)


@given(st.lists(patterns(), max_size=30), NAMES)
def test_set_of_expressions_finds_what_each_finds(expressions: list[str], name: str) -> None:
    found = regex.set_searcher(expressions)(name)
    assert sorted(found) == [
        index for index, each in enumerate(expressions) if re.search(each, name)
    ]


def named(name: str, pattern: str, priority: float = 0) -> Policy:
    return Policy(name, pattern, {"max-length": 1}, priority)


def policy_of(table: PolicyTable, queue: str) -> str | None:
    policy = table.of_queue(queue, QueueType.CLASSIC).policy
    return None if policy is None else policy.name


def test_first_by_name_wins_among_equal_priorities() -> None:
    policies = [named("b", "q"), named("a", "q"), named("c", "q")]
    assert policy_of(PolicyTable(policies), "q1") == "a"
    assert policy_of(PolicyTable(reversed(policies)), "q1") == "a"


def test_policy_with_an_unsupported_key_makes_way_for_the_next() -> None:
    streams = Policy("first", "q", {"max-length": 1, "max-age": "1D"}, 5)
    table = PolicyTable([streams, named("second", "q")])
    assert policy_of(table, "q") == "second"
    assert table.of_exchange("q").policy == streams


def test_names_that_are_not_utf_8_are_matched() -> None:
    name = b"q\xff.a".decode("utf-8", "surrogateescape")
    assert policy_of(PolicyTable([named("p", "^q")]), name) == "p"
    assert policy_of(PolicyTable([named("p", "[.]a$")]), name) == "p"
    assert policy_of(PolicyTable([named("p", "x[.]a$")]), name) is None


def test_many_literals_are_searched_for_as_a_set() -> None:
    policies = [named(f"p{index}", rf"^team{index}\.") for index in range(300)]
    table = PolicyTable([*policies, named("rest", "", -1)])
    assert matching.COMPARED_MAX < 300
    assert policy_of(table, "team0.orders") == "p0"
    assert policy_of(table, "team299.orders") == "p299"
    assert policy_of(table, "team300.orders") == "rest"


def test_a_thousand_expressions_are_one_set() -> None:
    expressions = [rf"^team{index}\.(service|queue)[0-9]+$" for index in range(1000)]
    assert len(list(regex._set_searches(expressions, 0))) == 1


def test_expressions_too_large_for_one_set_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "_SET_BYTES_MAX", 20_000)
    expressions = [f"^a{{{index}}}[bc]+x{{50}}$" for index in range(60)]
    search = regex.set_searcher(expressions)
    for index in (0, 17, 59):
        assert search(f"{'a' * index}bcb{'x' * 50}") == [index]
    assert search("aaa") == []


def test_expression_too_large_for_a_set_is_searched_for_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(regex, "_SET_BYTES_MAX", 1)
    search = regex.set_searcher(["^a+$", "b", "^a"])
    assert search("aaa") == [0, 2]
    assert search("ab") == [1, 2]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("orders", (False, "orders", False)),
        (r"^amq\.gen\-", (True, "amq.gen-", False)),
        (r"^a\.b$", (True, "a.b", True)),
        ("üx$", (False, "üx", True)),
        (".*", (False, "", False)),
        ("^.*", (True, "", False)),
        ("^team.*", (True, "team", False)),
        ("", (False, "", False)),
        ("^.*$", None),
        ("a|b", None),
        (r"\d", None),
        ("a.b", None),
        (r"a\.*", None),
        ("a*", None),
        ("x^", None),
    ],
)
def test_literal_patterns_are_found(pattern: str, literal: tuple[bool, str, bool] | None) -> None:
    assert matching._literal(pattern) == literal
