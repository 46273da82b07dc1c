"""The policies that a vhost has: their texts in the log of declarations, and their common bounds.

A hostile pattern costs its program's size for each character of a name, as each character may need
a new state of the search, so the patterns of a vhost are bounded by the sum of their programs.
50,000 instructions take 0.2 s for a name of 255 characters that is made to be slow, and are a
thousand patterns such as `^team7\\.(service|queue)[0-9]+\\..*7$`, of 30 instructions each.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from headrace.model import regex
from headrace.model.errors import Malformed
from headrace.queues.model.policies.policy import APPLIES_TO, InvalidPolicy, Policy

POLICIES_MAX = 1_000
"""Policies of a vhost, and operator policies."""
PROGRAMS_MAX = 50_000
"""Instructions of RE2's programs for the patterns of a vhost together."""
DEFINITIONS_BYTES_MAX = 4 << 20
"""Bytes of the JSON texts of a vhost's policies together. Several are set by one batch."""


class PolicyId(NamedTuple):
    """The identity of a policy in a vhost."""

    name: str
    operators: bool = False
    """Whether it is an operator policy."""


class VhostPolicy(NamedTuple):
    """A policy or an operator policy that a vhost has."""

    id: PolicyId
    policy: Policy
    text: str
    """The policy without its name as JSON, as it is stored."""
    changed_ms: int
    """The wall time of the change in milliseconds, on the broker that carried it out."""


def policy_text(policy: Policy) -> str:
    """Return a policy without its name as JSON."""
    return json.dumps(policy.value, separators=(",", ":"))


def policy_of(name: str, text: str) -> Policy:
    """Return the policy of a name and a text; it is not checked again. Raises Malformed."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"policy {name!r} is no JSON: {error}") from error
    match fields:
        case {
            "pattern": str(pattern),
            "definition": dict(definition),
            "priority": int() | float() as priority,
            "apply-to": str(applies_to),
        } if applies_to in APPLIES_TO:
            return Policy(name, pattern, definition, priority, APPLIES_TO[applies_to])
    raise Malformed(f"policy {name!r} has other fields than a policy")


def check_together(vhost: str, policies: Iterable[VhostPolicy]) -> None:
    """Raise InvalidPolicy if all policies of a vhost together exceed a bound."""
    present = list(policies)
    for operators, kind in ((False, "policies"), (True, "operator policies")):
        if sum(each.id.operators is operators for each in present) > POLICIES_MAX:
            raise _too_many(f"vhost '{vhost}' must not have more than {POLICIES_MAX} {kind}")
    if sum(regex.program_size(each.policy.pattern) for each in present) > PROGRAMS_MAX:
        raise _too_many(
            f"the patterns of all policies of vhost '{vhost}' must not exceed {PROGRAMS_MAX}"
            " instructions of RE2: simplify patterns, those with large repetitions first"
        )
    if sum(len(each.text) for each in present) > DEFINITIONS_BYTES_MAX:
        raise _too_many(
            f"all policies of vhost '{vhost}' must not exceed {DEFINITIONS_BYTES_MAX} bytes"
        )


def _too_many(problem: str) -> InvalidPolicy:
    return InvalidPolicy(f"Validation failed\n\n{problem}\n")
