"""Settings of queues and exchanges from arguments and policies, against a written-out model."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from headrace.queue_stores.queue_settings import (
    DELIVERIES_COUNTED_MAX,
    DELIVERY_LIMIT_DEFAULT,
    Overflow,
    QueueSettings,
    QueueType,
)
from headrace.queues.model.arguments import QUEUE_TYPE, queue_settings
from headrace.queues.model.policies.effective import (
    AppliedPolicies,
    effective_alternate,
    effective_arguments,
    effective_settings,
)
from headrace.queues.model.policies.keys import KEYS
from headrace.queues.model.policies.matching import PolicyTable
from headrace.queues.model.policies.policy import Policy

VALUES: dict[str, list[object]] = {
    "alternate-exchange": ["x", "y"],
    "consumer-disconnected-timeout": [5, 9],
    "consumer-timeout": [5, 9],
    "dead-letter-exchange": ["x", "y"],
    "dead-letter-routing-key": ["k", "l"],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "delayed-retry-max": [5, 9],
    "delayed-retry-min": [5, 9],
    "delayed-retry-type": ["all", "disabled"],
    "delivery-limit": [-1, 3, 30],
    "expires": [5, 9],
    "initial-cluster-size": [1, 3],
    "max-age": ["1D", "2h"],
    "max-in-memory-bytes": [5, 9],
    "max-in-memory-length": [5, 9],
    "max-length": [0, 5, 9],
    "max-length-bytes": [5, 9],
    "message-ttl": [0, 5, 9],
    "overflow": [mode.value for mode in Overflow],
    "queue-leader-locator": ["client-local", "balanced"],
    "queue-mode": ["lazy"],
    "queue-version": [1, 2],
    "stream-filter-size-bytes": [16, 32],
    "stream-max-segment-size-bytes": [50, 90],
    "target-group-size": [3, 5],
}
ARGUMENTS: dict[QueueType, list[str]] = {
    QueueType.CLASSIC: [
        "message-ttl", "expires", "max-length", "max-length-bytes", "overflow",
        "dead-letter-exchange", "dead-letter-routing-key", "consumer-timeout",
        "queue-leader-locator",
    ],
    QueueType.QUORUM: [
        "message-ttl", "expires", "max-length", "max-length-bytes", "overflow",
        "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy",
        "delivery-limit", "consumer-timeout", "queue-leader-locator",
    ],
    QueueType.STREAM: [
        "max-length-bytes", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size",
        "queue-leader-locator",
    ],
}  # fmt: skip
AGES_MS = {"1D": 86_400_000, "2h": 7_200_000}
MIN_OF_OPERATOR = {
    "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes",
    "expires", "delayed-retry-max",
}  # fmt: skip
Values = Mapping[str, object]


def definitions(*, operators: bool) -> st.SearchStrategy[dict[str, object]]:
    names = [name for name, key in KEYS.items() if not operators or key.operators is not None]
    return st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(VALUES[name]) for name in names}
    )


def arguments_of(queue_type: QueueType) -> st.SearchStrategy[dict[str, object]]:
    values = {name: st.sampled_from(VALUES[name]) for name in ARGUMENTS[queue_type]}
    return st.fixed_dictionaries({}, optional=values)


@st.composite
def cases(draw: st.DrawFn) -> tuple[QueueType, Values, Values, Values]:
    queue_type = draw(st.sampled_from(list(QueueType)))
    asked = draw(arguments_of(queue_type))
    return (
        queue_type,
        asked,
        draw(definitions(operators=False)),
        draw(definitions(operators=True)),
    )


def applied(policy: Values, operators: Values) -> AppliedPolicies:
    return AppliedPolicies(
        Policy("p", "", policy) if policy else None,
        Policy("o", "", operators) if operators else None,
    )


def delivery_limit(one: Any, other: Any) -> object:
    return max(one, other) if one < 0 or other < 0 else min(one, other)


def model_definition(policy: Values, operators: Values) -> dict[str, object]:
    """Join two definitions as `rabbit_policies:merge_policy_value` does."""
    joined: dict[str, object] = {}
    for name in policy.keys() | operators.keys():
        if name not in operators:
            joined[name] = policy[name]
        elif name not in policy:
            joined[name] = operators[name]
        elif name in MIN_OF_OPERATOR:
            joined[name] = min(cast("int", policy[name]), cast("int", operators[name]))
        elif name in {"target-group-size", "delayed-retry-min"}:
            joined[name] = max(cast("int", policy[name]), cast("int", operators[name]))
        elif name == "delivery-limit":
            joined[name] = delivery_limit(policy[name], operators[name])
        else:
            joined[name] = operators[name]
    return joined


def model_settings(queue_type: QueueType, asked: Values, joined: Values) -> QueueSettings:
    """Compute the settings as RabbitMQ's queue types look their values up."""

    def lookup(name: str, resolve: Callable[[Any, Any], object]) -> Any:
        if name in asked and name in joined:
            return resolve(joined[name], asked[name])
        return asked.get(name, joined.get(name))

    def argument(_: object, of_argument: object) -> object:
        return of_argument

    def policy(of_policy: object, _: object) -> object:
        return of_policy

    timeout = lookup("consumer-timeout", min)
    if queue_type is QueueType.STREAM:
        age = lookup("max-age", policy)
        return QueueSettings(
            queue_type,
            retention_ms=AGES_MS.get(age),
            retention_bytes=lookup("max-length-bytes", policy),
            segment_bytes_max=lookup("stream-max-segment-size-bytes", policy),
            consumer_timeout_ms=timeout,
        )
    is_quorum = queue_type is QueueType.QUORUM
    overflow = Overflow(lookup("overflow", policy if is_quorum else argument) or "drop-head")
    limit = lookup("delivery-limit", delivery_limit)
    if limit is None:
        limit = DELIVERY_LIMIT_DEFAULT
    strategy = lookup("dead-letter-strategy", argument)
    settings = QueueSettings(
        queue_type,
        ttl_ms=lookup("message-ttl", min),
        expires_ms=lookup("expires", min),
        length_max=lookup("max-length", min),
        length_bytes_max=lookup("max-length-bytes", min),
        overflow=overflow,
        dead_letter_exchange=lookup("dead-letter-exchange", argument),
        dead_letter_routing_key=lookup("dead-letter-routing-key", argument),
        consumer_timeout_ms=timeout,
    )
    if not is_quorum:
        return settings
    drops_head = overflow is not Overflow.REJECT_PUBLISH
    return settings._replace(
        overflow=Overflow.DROP_HEAD if drops_head else overflow,
        delivery_limit=DELIVERIES_COUNTED_MAX if limit < 0 else limit,
        dead_letter_at_least_once=(strategy == "at-least-once" and not drops_head),
    )


def as_arguments(queue_type: QueueType, asked: Values) -> dict[str, object]:
    return {QUEUE_TYPE: queue_type.value, **{f"x-{name}": asked[name] for name in asked}}


@given(cases())
def test_settings_are_arguments_joined_with_policies(
    case: tuple[QueueType, Values, Values, Values],
) -> None:
    queue_type, asked, policy, operators = case
    # A policy with a key that the type does not support does not match its queues.
    of_policy, of_operators = (
        {name: each[name] for name in each if queue_type not in KEYS[name].unsupported}
        for each in (policy, operators)
    )
    policies = applied(of_policy, of_operators)
    assert policies.definition == model_definition(of_policy, of_operators)
    settings = effective_settings(as_arguments(queue_type, asked), queue_type, policies)
    assert settings == model_settings(queue_type, asked, policies.definition)


@given(cases())
def test_settings_without_policies_are_those_of_the_arguments(
    case: tuple[QueueType, Values, Values, Values],
) -> None:
    queue_type, asked, _, _ = case
    if "dead-letter-routing-key" in asked:
        # Without the exchange, a declaration refuses the routing key.
        asked = {"dead-letter-exchange": "x", **asked}
    arguments = as_arguments(queue_type, asked)
    settings = effective_settings(arguments, queue_type, AppliedPolicies())
    assert settings == queue_settings(arguments, "queue 'q' in vhost '/'")


@given(definitions(operators=False), definitions(operators=True))
def test_definitions_are_joined_key_by_key(policy: Values, operators: Values) -> None:
    assert applied(policy, operators).definition == model_definition(policy, operators)


def joined(queue_type: QueueType, arguments: Values, definition: Values) -> Values:
    return effective_arguments(arguments, queue_type, definition)


def test_arguments_of_a_declaration_stay_as_they_are() -> None:
    arguments = {QUEUE_TYPE: "classic", "x-max-length": 5}
    assert joined(QueueType.CLASSIC, arguments, {"max-length": 3})["x-max-length"] == 3
    assert arguments == {QUEUE_TYPE: "classic", "x-max-length": 5}
    assert joined(QueueType.CLASSIC, arguments, {}) is arguments


def test_policy_names_leader_and_replicas_of_queues() -> None:
    arguments = {"x-queue-leader-locator": "balanced", "x-quorum-target-group-size": 3}
    definition = {"queue-leader-locator": "client-local", "target-group-size": 5}
    assert joined(QueueType.QUORUM, arguments, definition) == {
        "x-queue-leader-locator": "client-local",
        "x-quorum-target-group-size": 5,
    }


def test_policy_wins_over_an_argument_that_is_no_number() -> None:
    arguments = {"x-consumer-timeout": "soon"}
    assert joined(QueueType.CLASSIC, arguments, {"consumer-timeout": 7}) == {
        "x-consumer-timeout": 7
    }


def test_policy_changes_nothing_of_a_topic_that_a_stream_reads() -> None:
    arguments = {QUEUE_TYPE: "stream", "x-headrace-topic": "orders"}
    definition = {"max-age": "1D", "max-length-bytes": 5, "queue-leader-locator": "balanced"}
    assert joined(QueueType.STREAM, arguments, definition) == {
        **arguments,
        "x-queue-leader-locator": "balanced",
    }


def test_numbers_without_bound_are_applied_as_the_largest() -> None:
    policies = applied({"max-length": 10**30, "message-ttl": 10**30}, {})
    settings = effective_settings({}, QueueType.CLASSIC, policies)
    assert settings.length_max == (1 << 63) - 1
    assert settings.ttl_ms == 315_360_000_000
    assert policies.definition["max-length"] == 10**30


def test_key_of_a_later_version_is_shown_and_has_no_effect() -> None:
    policies = applied({"later": 1, "max-length": 5}, {"later": 2})
    assert policies.definition == {"later": 2, "max-length": 5}
    table = PolicyTable([policies.policy] if policies.policy else [])
    assert table.of_queue("q", QueueType.CLASSIC).policy == policies.policy
    assert joined(QueueType.CLASSIC, {}, policies.definition) == {"x-max-length": 5}


def test_argument_names_the_alternate_exchange_before_a_policy() -> None:
    policies = applied({"alternate-exchange": "of-policy"}, {})
    assert effective_alternate({}, policies) == "of-policy"
    assert effective_alternate({"alternate-exchange": "own"}, policies) == "own"
    assert effective_alternate({}, AppliedPolicies()) is None
