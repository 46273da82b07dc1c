"""Verdicts on definitions, for any values of any keys, against RabbitMQ's clauses written out."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from headrace.queues.model.policies.erlang_terms import erlang_pairs, erlang_term
from headrace.queues.model.policies.keys import KEYS
from headrace.queues.model.policies.policy import InvalidPolicy, checked_policy, with_defaults

COUNTS = {
    "consumer-disconnected-timeout": "consumer disconnected timeout",
    "consumer-timeout": "consumer timeout",
    "initial-cluster-size": "cluster size",
    "max-in-memory-bytes": "maximum memory in bytes",
    "max-in-memory-length": "maximum memory in bytes",
    "max-length": "maximum length",
    "max-length-bytes": "maximum length in bytes",
    "message-ttl": "message TTL",
}
NAMES = {
    "alternate-exchange": "alternate exchange name",
    "dead-letter-exchange": "dead letter exchange name",
    "dead-letter-routing-key": "dead letter routing key",
}
CHOICES = {
    "dead-letter-strategy": ("dead letter strategy", "at-most-once at-least-once"),
    "overflow": ("overflow value", "drop-head reject-publish reject-publish-dlx"),
    "queue-leader-locator": (
        "queue leader locator value",
        "client-local balanced random least-leaders",
    ),
    "queue-mode": ("queue-mode value", "default lazy"),
}
RETRIES = {"delayed-retry-max": "maximum", "delayed-retry-min": "minimum"}
OF_USERS_ONLY = {
    "consumer-disconnected-timeout", "consumer-timeout", "dead-letter-exchange", "max-age",
    "dead-letter-routing-key", "dead-letter-strategy", "initial-cluster-size", "queue-mode",
    "queue-leader-locator", "stream-filter-size-bytes", "stream-max-segment-size-bytes",
    "alternate-exchange",
}  # fmt: skip
Definition = Mapping[str, object]


def number(value: object, least: int, most: float = float("inf")) -> bool:
    return type(value) is int and least <= value <= most


def refused_value(name: str, value: object) -> str | None:
    """Return the text after an invalid value; None: it is valid or the key is unknown."""
    if name in COUNTS:
        return None if number(value, 0) else f"is not a valid {COUNTS[name]}"
    if name in NAMES:
        return None if isinstance(value, str) else f"is not a valid {NAMES[name]}"
    if name in CHOICES:
        what, choices = CHOICES[name]
        valid = isinstance(value, str) and value in choices.split()
        return None if valid else f"is not a valid {what}"
    if name in RETRIES:
        text = f"is not a valid delayed retry {RETRIES[name]} delay. Must be a positive integer"
        return None if number(value, 1) else text
    return refused_other(name, value)


def refused_other(name: str, value: object) -> str | None:
    valid, text = True, ""
    match name:
        case "delivery-limit":
            valid, text = type(value) is int, "is not a valid delivery limit"
        case "expires":
            valid, text = number(value, 1), "is not a valid queue expiry"
        case "max-age":
            digits = value[:-1] if isinstance(value, str) else ""
            valid = digits.isdecimal() and int(digits) > 0 and str(value)[-1] in "YMDhms"
            text = "is not a valid max age"
        case "queue-version":
            valid, text = number(value, 1, 2), "is not a valid queue-version value"
        case "stream-filter-size-bytes":
            valid = number(value, 16, 255)
            text = "is not a valid filter size. Valid range is 16-255"
        case "stream-max-segment-size-bytes":
            valid, text = number(value, 0, 3_000_000_000), "is not a valid segment size"
        case "target-group-size":
            valid, text = number(value, 1), "is not a valid qq target count value"
        case "delayed-retry-type":
            valid = value in ("all", "failed", "returned", "disabled")
            text = (
                "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled"
            )
    return None if valid else text


def verdict(definition: Definition, *, operators: bool) -> str | None:
    """Return the text about a definition; None: it is accepted."""
    if not definition:
        return "no policy provided"
    known = {name for name in KEYS if not operators or name not in OF_USERS_ONLY}
    of_quorum = {"target-group-size", "delayed-retry-type", *RETRIES}
    for names in (known - of_quorum, known & of_quorum):
        for name in sorted(names & definition.keys()):
            text = refused_value(name, definition[name])
            if text is not None:
                return f"{erlang_term(definition[name])} {text}"
    retry = definition.get("delayed-retry-type", "disabled")
    least, most = (definition.get(f"delayed-retry-{which}") for which in ("min", "max"))
    if retry != "disabled" and least is None:
        return f"delayed-retry-min is required when delayed-retry-type is {retry}"
    if isinstance(least, int) and isinstance(most, int) and most < least:
        return f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
    unknown = {name: definition[name] for name in definition.keys() - known}
    return f"{erlang_pairs(unknown)} are not recognised policy settings" if unknown else None


WORDS = [word for _, choices in CHOICES.values() for word in choices.split()]
ANY_VALUE = st.one_of(
    st.integers(-2, 300),
    st.sampled_from([*WORDS, "all", "disabled", "", "x", "1D", "0D"]),
    st.sampled_from([3_000_000_000, 3_000_000_001, 1.0, True, False, None, [], [1], {}, {"a": 1}]),
)
"""Values of which some are valid for each key."""


def definitions(sizes: tuple[int, int]) -> st.SearchStrategy[dict[str, object]]:
    names = st.sampled_from([*KEYS, "ha-mode", "max-priority"])
    return st.dictionaries(names, ANY_VALUE, min_size=sizes[0], max_size=sizes[1])


def text_about(definition: Definition, *, operators: bool) -> str | None:
    value = with_defaults({"pattern": "q", "definition": definition})
    try:
        assert checked_policy("p", value, operators=operators).definition == definition
    except InvalidPolicy as error:
        return str(error).removeprefix("Validation failed\n\n").removesuffix("\n")
    return None


@given(definitions((1, 1)), st.booleans())
def test_verdict_on_a_key_is_rabbitmqs(definition: Definition, operators: bool) -> None:
    assert text_about(definition, operators=operators) == verdict(definition, operators=operators)


@given(definitions((0, 6)), st.booleans())
def test_verdict_on_several_keys_is_rabbitmqs(definition: Definition, operators: bool) -> None:
    assert text_about(definition, operators=operators) == verdict(definition, operators=operators)
