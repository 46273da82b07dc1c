"""A policy as a value, and the checks of a new one, with RabbitMQ's texts.

Some texts differ: the reason of an invalid pattern is RE2's, what would crash RabbitMQ is refused
(a definition that is no object, a `max-age` that is no string), and names have a bound.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import NamedTuple, cast

from headrace.model import regex
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.policies.erlang_terms import erlang_pairs, erlang_term
from headrace.queues.model.policies.keys import (
    COMMON_KEYS,
    QUORUM_KEYS,
    PolicyKey,
    is_integer,
    operator_keys,
)
from headrace.queues.refusals import POLICY, RefusalKind, Refused

NAME_BYTES_MAX = 255
PATTERN_BYTES_MAX = 1024
DEFINITION_BYTES_MAX = 65_536
_MASTER_LOCATOR = "queue-master-locator"
_CHECKED = (COMMON_KEYS, QUORUM_KEYS)
_CHECKED_FOR_OPERATORS = tuple(operator_keys(keys) for keys in _CHECKED)
_FIELDS = ("pattern", "definition", "priority", "apply-to")


class InvalidPolicy(Refused):
    """A policy is refused; the text is RabbitMQ's."""

    def __init__(self, problem: str) -> None:
        super().__init__(RefusalKind.PRECONDITION_FAILED, POLICY, problem)


class AppliesTo(Enum):
    """The objects that a policy can apply to, by the names of `apply-to`."""

    QUEUES = "queues"
    CLASSIC_QUEUES = "classic_queues"
    QUORUM_QUEUES = "quorum_queues"
    STREAMS = "streams"
    EXCHANGES = "exchanges"
    ALL = "all"

    def covers(self, queue_type: QueueType | None) -> bool:
        """Tell whether objects of a type are meant; None: exchanges."""
        if self is AppliesTo.ALL:
            return True
        if queue_type is None:
            return self is AppliesTo.EXCHANGES
        return self is AppliesTo.QUEUES or self is _OF_TYPE[queue_type]


_OF_TYPE = {
    QueueType.CLASSIC: AppliesTo.CLASSIC_QUEUES,
    QueueType.QUORUM: AppliesTo.QUORUM_QUEUES,
    QueueType.STREAM: AppliesTo.STREAMS,
}
APPLIES_TO = {applies_to.value: applies_to for applies_to in AppliesTo}
"""All names of `apply-to`."""


class Policy(NamedTuple):
    """A checked policy, of users or of operators."""

    name: str
    pattern: str
    definition: Mapping[str, object]
    priority: float = 0
    applies_to: AppliesTo = AppliesTo.ALL

    @property
    def value(self) -> dict[str, object]:
        """The policy without its name, as RabbitMQ's `value` of a parameter."""
        values = (self.pattern, dict(self.definition), self.priority, self.applies_to.value)
        return dict(zip(_FIELDS, values, strict=True))


def with_defaults(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a new policy: priority 0, `apply-to` all; unknown fields are dropped."""
    known = {name: fields[name] for name in _FIELDS if name in fields}
    return {"priority": 0, "apply-to": AppliesTo.ALL.value, **known}


def checked_policy(name: str, value: object, *, operators: bool = False) -> Policy:
    """Return the policy that a `value` describes; `operators`: an operator policy.

    Raises InvalidPolicy.
    """
    problems = [*_name_problems(name), *_problems(name, value, operators=operators)]
    if problems:
        raise InvalidPolicy("\n".join(("Validation failed\n", *problems, "")))
    fields = cast("Mapping[str, object]", value)
    return Policy(
        name,
        cast("str", fields["pattern"]),
        cast("Mapping[str, object]", fields["definition"]),
        cast("float", fields["priority"]),
        APPLIES_TO[cast("str", fields.get("apply-to", AppliesTo.ALL.value))],
    )


def _problems(name: str, value: object, *, operators: bool) -> Iterator[str]:
    """Yield all that is wrong, in RabbitMQ's order: the last field in front."""
    if not isinstance(value, Mapping):
        yield f"{name} not a list {erlang_term(value)}"
        return
    unknown = {field: value[field] for field in value if field not in _FIELDS}
    if unknown:
        yield f"Unrecognised terms {erlang_pairs(unknown)} in {name}"
    checks = (
        ("definition", lambda found: _definition_problem(name, found, operators=operators)),
        ("apply-to", _applies_to_problem),
        ("pattern", _pattern_problem),
        ("priority", _priority_problem),
    )
    for field, check in checks:
        if field in value:
            problem = check(value[field])
            if problem is not None:
                yield problem
        elif field != "apply-to":
            yield f'Key "{field}" not found in {name}'


def _name_problems(name: str) -> Iterator[str]:
    """Yield what is wrong with a name. RabbitMQ's have no bound."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        yield "name must be UTF-8"
    else:
        if not 0 < size <= NAME_BYTES_MAX:
            yield f"name must have 1 to {NAME_BYTES_MAX} bytes"


def _priority_problem(priority: object) -> str | None:
    if is_integer(priority) or (isinstance(priority, float) and isfinite(priority)):
        return None
    return f"priority should be a number, actually was {erlang_term(priority)}"


def _pattern_problem(pattern: object) -> str | None:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {erlang_term(pattern)}"
    if len(pattern.encode("utf-8", "surrogatepass")) > PATTERN_BYTES_MAX:
        return f"pattern must not exceed {PATTERN_BYTES_MAX} bytes"
    problem = regex.problem(pattern)
    if problem is None:
        return None
    return f"pattern should be regular expression but is invalid: {problem}"


def _applies_to_problem(applies_to: object) -> str | None:
    if isinstance(applies_to, str) and applies_to in APPLIES_TO:
        return None
    shown = applies_to if isinstance(applies_to, str) else erlang_term(applies_to)
    return (
        f"apply-to '{shown}' unrecognised; should be one of: 'queues', 'classic_queues',"
        "  'quorum_queues', 'streams', 'exchanges', or 'all'"
    )


def _definition_problem(name: str, definition: object, *, operators: bool) -> str | None:
    if isinstance(definition, list) and definition:
        return f"definition must be a dictionary: {erlang_term(definition)}"
    if definition in ({}, []):
        return "no policy provided"
    if not isinstance(definition, Mapping):
        return f"parse error while reading policy {name}: {erlang_term(definition)}."
    if _too_large(definition):
        return f"definition must not exceed {DEFINITION_BYTES_MAX} bytes"
    if not _is_unicode(definition):
        return "definition must be UTF-8"
    return _keys_problem(definition, _CHECKED_FOR_OPERATORS if operators else _CHECKED)


def _too_large(definition: Mapping[str, object]) -> bool:
    try:
        return len(json.dumps(definition)) > DEFINITION_BYTES_MAX
    except RecursionError:
        return True


def _is_unicode(definition: Mapping[str, object]) -> bool:
    """Tell whether no text of a definition has half a character, which no answer can show."""
    try:
        json.dumps(definition, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _keys_problem(
    definition: Mapping[str, object], checked: tuple[dict[str, PolicyKey], ...]
) -> str | None:
    """Return the first problem of the keys. RabbitMQ's order is by module, then by name."""
    if _MASTER_LOCATOR in definition:
        return f"use of deprecated {_MASTER_LOCATOR} argument is not permitted"
    for keys in checked:
        for name in sorted(definition.keys() & keys.keys()):
            value, key = definition[name], keys[name]
            if not key.valid(value):
                return f"{erlang_term(value)} {key.invalid}"
    problem = _delayed_retry_problem(definition)
    if problem is not None:
        return problem
    known = {name for keys in checked for name in keys}
    unknown = {name: value for name, value in definition.items() if name not in known}
    return f"{erlang_pairs(unknown)} are not recognised policy settings" if unknown else None


def _delayed_retry_problem(definition: Mapping[str, object]) -> str | None:
    retry_type = definition.get("delayed-retry-type", "disabled")
    least, most = definition.get("delayed-retry-min"), definition.get("delayed-retry-max")
    if retry_type != "disabled" and least is None:
        return f"delayed-retry-min is required when delayed-retry-type is {retry_type}"
    if least is not None and most is not None and cast("int", most) < cast("int", least):
        return f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"
    return None
