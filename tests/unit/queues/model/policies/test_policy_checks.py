"""Checks of new policies: RabbitMQ's texts for each field, key and value."""

from collections.abc import Mapping

import pytest

from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.policies.erlang_terms import erlang_term
from headrace.queues.model.policies.keys import KEYS
from headrace.queues.model.policies.policy import (
    AppliesTo,
    InvalidPolicy,
    Policy,
    checked_policy,
    with_defaults,
)
from tests.support.queues.policies import policy_value


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


VALID: dict[str, list[object]] = {
    "alternate-exchange": ["", "x"],
    "consumer-disconnected-timeout": [0, 1],
    "consumer-timeout": [0, 1],
    "dead-letter-exchange": ["", "x"],
    "dead-letter-routing-key": ["", "k"],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "delayed-retry-max": [1],
    "delayed-retry-min": [1],
    "delayed-retry-type": ["disabled"],
    "delivery-limit": [-1, 0, 20],
    "expires": [1],
    "initial-cluster-size": [0, 3],
    "max-age": ["1Y", "7D", "12h"],
    "max-in-memory-bytes": [0],
    "max-in-memory-length": [0],
    "max-length": [0, 10**30],
    "max-length-bytes": [0],
    "message-ttl": [0],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "queue-leader-locator": ["client-local", "balanced", "random", "least-leaders"],
    "queue-mode": ["default", "lazy"],
    "queue-version": [1, 2],
    "stream-filter-size-bytes": [16, 255],
    "stream-max-segment-size-bytes": [0, 3_000_000_000],
    "target-group-size": [1, 3],
}
INVALID: list[tuple[str, object, str]] = [
    ("alternate-exchange", 1, "1 is not a valid alternate exchange name"),
    ("consumer-disconnected-timeout", -1, "-1 is not a valid consumer disconnected timeout"),
    ("consumer-timeout", "1", '<<"1">> is not a valid consumer timeout'),
    ("dead-letter-exchange", None, "null is not a valid dead letter exchange name"),
    ("dead-letter-routing-key", ["k"], '[<<"k">>] is not a valid dead letter routing key'),
    ("dead-letter-strategy", "maybe", '<<"maybe">> is not a valid dead letter strategy'),
    (
        "delayed-retry-max",
        0,
        "0 is not a valid delayed retry maximum delay. Must be a positive integer",
    ),
    (
        "delayed-retry-min",
        0,
        "0 is not a valid delayed retry minimum delay. Must be a positive integer",
    ),
    (
        "delayed-retry-type",
        "some",
        '<<"some">> is not a valid delayed retry type.'
        " Must be one of: all, failed, returned, disabled",
    ),
    ("delivery-limit", "3", '<<"3">> is not a valid delivery limit'),
    ("delivery-limit", True, "true is not a valid delivery limit"),
    ("expires", 0, "0 is not a valid queue expiry"),
    ("initial-cluster-size", -1, "-1 is not a valid cluster size"),
    ("max-age", "7", '<<"7">> is not a valid max age'),
    ("max-age", "0D", '<<"0D">> is not a valid max age'),
    ("max-age", 7, "7 is not a valid max age"),
    ("max-in-memory-bytes", -1, "-1 is not a valid maximum memory in bytes"),
    ("max-in-memory-length", -1, "-1 is not a valid maximum memory in bytes"),
    ("max-length", 1.0, "1.0 is not a valid maximum length"),
    ("max-length", True, "true is not a valid maximum length"),
    ("max-length-bytes", {}, "#{} is not a valid maximum length in bytes"),
    ("message-ttl", {"a": 1}, '#{<<"a">> => 1} is not a valid message TTL'),
    ("overflow", "drop-tail", '<<"drop-tail">> is not a valid overflow value'),
    (
        "queue-leader-locator",
        "min-masters",
        '<<"min-masters">> is not a valid queue leader locator value',
    ),
    ("queue-mode", "eager", '<<"eager">> is not a valid queue-mode value'),
    ("queue-version", 3, "3 is not a valid queue-version value"),
    ("stream-filter-size-bytes", 15, "15 is not a valid filter size. Valid range is 16-255"),
    (
        "stream-max-segment-size-bytes",
        3_000_000_001,
        "3000000001 is not a valid segment size",
    ),
    ("target-group-size", 0, "0 is not a valid qq target count value"),
]
OPERATOR_KEYS = {
    "expires",
    "message-ttl",
    "max-length",
    "max-length-bytes",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delivery-limit",
    "overflow",
    "queue-version",
    "target-group-size",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
}


def problem(
    definition: object, fields: Mapping[str, object] | None = None, *, operators: bool = False
) -> str:
    value = with_defaults({"pattern": "q", "definition": definition, **(fields or {})})
    with pytest.raises(InvalidPolicy) as refused:
        checked_policy("p", value, operators=operators)
    text = str(refused.value)
    assert text.startswith("Validation failed\n\n")
    assert text.endswith("\n")
    return text.removeprefix("Validation failed\n\n").removesuffix("\n")


@pytest.mark.parametrize("name", KEYS)
def test_valid_values_of_each_key_are_accepted(name: str) -> None:
    for value in VALID[name]:
        policy = checked_policy("p", with_defaults({"pattern": ".*", "definition": {name: value}}))
        assert policy == Policy("p", ".*", {name: value}, 0, AppliesTo.ALL)


@pytest.mark.parametrize(("name", "value", "text"), INVALID)
def test_invalid_values_are_refused_in_rabbitmqs_words(name: str, value: object, text: str) -> None:
    assert problem({name: value}) == text


def test_each_key_has_an_invalid_value_here() -> None:
    assert {name for name, _, _ in INVALID} == set(KEYS) == set(VALID)


@pytest.mark.parametrize("name", KEYS)
def test_operator_policies_have_only_the_keys_that_rabbitmq_permits(name: str) -> None:
    value = with_defaults({"pattern": "q", "definition": {name: VALID[name][0]}})
    if name in OPERATOR_KEYS:
        assert checked_policy("p", value, operators=True).definition == value["definition"]
    else:
        text = problem(value["definition"], operators=True)
        assert text == f'[{{<<"{name}">>,{erlang_term(VALID[name][0])}}}] are not recognised' + (
            " policy settings"
        )


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        ([], "no policy provided"),
        ([1], "definition must be a dictionary: [1]"),
        ("x", 'parse error while reading policy p: <<"x">>.'),
        (
            {"nosuch": 1, "max-length": 1, "also": None},
            '[{<<"also">>,null},{<<"nosuch">>,1}] are not recognised policy settings',
        ),
        ({"nosuch": 1, "max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": -1, "expires": 0}, "0 is not a valid queue expiry"),
        (
            {"queue-master-locator": "min-masters", "max-length": -1},
            "use of deprecated queue-master-locator argument is not permitted",
        ),
        (
            {"delayed-retry-type": "all"},
            "delayed-retry-min is required when delayed-retry-type is all",
        ),
        (
            {"delayed-retry-min": 5, "delayed-retry-max": 4},
            "delayed-retry-max (4) must not be smaller than delayed-retry-min (5)",
        ),
        ({"alternate-exchange": "x" * 65_536}, "definition must not exceed 65536 bytes"),
        ({"max-length": nested(100_000)}, "definition must not exceed 65536 bytes"),
        (
            {"max-length": nested(900)},
            f"{'[' * 20}...{']' * 20} is not a valid maximum length",
        ),
    ],
)
def test_definitions_are_refused_in_rabbitmqs_words(definition: object, text: str) -> None:
    assert problem(definition) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"priority": "1"}, 'priority should be a number, actually was <<"1">>'),
        ({"priority": None}, "priority should be a number, actually was null"),
        ({"priority": True}, "priority should be a number, actually was true"),
        ({"priority": float("nan")}, "priority should be a number, actually was nan"),
        ({"pattern": 5}, "pattern should be a binary but was 5"),
        ({"pattern": "x" * 1025}, "pattern must not exceed 1024 bytes"),
        ({"pattern": "ü" * 513}, "pattern must not exceed 1024 bytes"),
        (
            {"pattern": "\ud800"},
            "pattern should be regular expression but is invalid: it is no UTF-8",
        ),
        (
            {"pattern": "(?=q)"},
            "pattern should be regular expression but is invalid: invalid perl operator: (?=",
        ),
        (
            {"pattern": r"(q)\1"},
            r"pattern should be regular expression but is invalid: invalid escape sequence: \1",
        ),
        (
            {"apply-to": "queue"},
            "apply-to 'queue' unrecognised; should be one of: 'queues', 'classic_queues', "
            " 'quorum_queues', 'streams', 'exchanges', or 'all'",
        ),
    ],
)
def test_fields_are_refused_in_rabbitmqs_words(fields: dict[str, object], text: str) -> None:
    assert problem({"max-length": 1}, fields) == text


def test_all_problems_are_listed_the_last_field_in_front() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        checked_policy("p", {"more": 1, "definition": {}, "priority": "a", "apply-to": 5})
    assert str(refused.value).splitlines() == [
        "Validation failed",
        "",
        'Unrecognised terms [{<<"more">>,1}] in p',
        "no policy provided",
        "apply-to '5' unrecognised; should be one of: 'queues', 'classic_queues', "
        " 'quorum_queues', 'streams', 'exchanges', or 'all'",
        'Key "pattern" not found in p',
        'priority should be a number, actually was <<"a">>',
    ]


def test_value_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="p not a list null"):
        checked_policy("p", None)


def test_policy_is_rebuilt_from_its_value() -> None:
    policy = Policy("p", "^q", {"max-length": 1}, 2.5, AppliesTo.STREAMS)
    assert checked_policy("p", policy.value) == policy


def test_defaults_are_priority_0_and_all_objects() -> None:
    fields = with_defaults({"pattern": "q", "definition": {"max-length": 1}, "name": "dropped"})
    assert fields == {
        "pattern": "q",
        "definition": {"max-length": 1},
        "priority": 0,
        "apply-to": "all",
    }


@pytest.mark.parametrize(
    ("applies_to", "covered"),
    [
        (AppliesTo.ALL, {None, *QueueType}),
        (AppliesTo.EXCHANGES, {None}),
        (AppliesTo.QUEUES, {*QueueType}),
        (AppliesTo.CLASSIC_QUEUES, {QueueType.CLASSIC}),
        (AppliesTo.QUORUM_QUEUES, {QueueType.QUORUM}),
        (AppliesTo.STREAMS, {QueueType.STREAM}),
    ],
)
def test_apply_to_names_object_types(applies_to: AppliesTo, covered: set[QueueType | None]) -> None:
    assert {each for each in (None, *QueueType) if applies_to.covers(each)} == covered


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", '<<"x">>'),
        ("", "<<>>"),
        ('a"\\\n', '<<"a\\"\\\\\\n">>'),
        ("ü", '<<"ü"/utf8>>'),
        (False, "false"),
        (None, "null"),
        (1.5, "1.5"),
        ([1, "a", []], '[1,<<"a">>,[]]'),
        ({"b": 1, "a": [True]}, '#{<<"a">> => [true],<<"b">> => 1}'),
    ],
)
def test_values_are_shown_as_erlang_terms(value: object, shown: str) -> None:
    assert erlang_term(value) == shown


@pytest.mark.parametrize("name", ["p", "n" * 255, "é" * 127, "a b/c\n"])
def test_name_of_a_policy_may_be_any_text(name: str) -> None:
    assert checked_policy(name, policy_value()).name == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "name must have 1 to 255 bytes"),
        ("é" * 128, "name must have 1 to 255 bytes"),
        ("\ud800", "name must be UTF-8"),
    ],
)
def test_name_that_is_too_long_or_no_text_is_refused(name: str, problem: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        checked_policy(name, policy_value())
    assert str(refused.value) == f"Validation failed\n\n{problem}\n"
