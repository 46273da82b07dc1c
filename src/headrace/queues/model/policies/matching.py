"""The policy of each object of a vhost: the first by priority whose pattern is found in its name.

RabbitMQ leaves open which of several policies with equal priorities applies. Here it is the first
by name, so that all brokers choose the same one.

A pattern is RE2. Most are literals with `^`, `$` or neither: those are compared as strings while
they are few. All others of an object type are searched for in one pass (`regex.set_searcher`).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from headrace.model import regex
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.model.policies.effective import AppliedPolicies
from headrace.queues.model.policies.keys import KEYS
from headrace.queues.model.policies.policy import Policy

COMPARED_MAX = 16
"""Literals that are compared as strings; more are faster as a set of expressions."""
_LITERAL = re.compile(r"(\^?)((?:[^\\^$.|?*+()\[\]{}]|\\\W)*)(\$|\.\*)?")
"""`^`, characters without a meaning of their own or behind a backslash, then `$` or `.*`."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_Test = Callable[[str], bool]


class PolicyTable:
    """The policies and operator policies of a vhost. Immutable."""

    def __init__(
        self, policies: Iterable[Policy] = (), operator_policies: Iterable[Policy] = ()
    ) -> None:
        self._policies = _Matcher(policies)
        self._operator_policies = _Matcher(operator_policies)

    def of_queue(self, name: str, queue_type: QueueType) -> AppliedPolicies:
        """Return the policies of a queue."""
        return self._of(name, queue_type)

    def of_exchange(self, name: str) -> AppliedPolicies:
        """Return the policies of an exchange."""
        return self._of(name, None)

    def _of(self, name: str, queue_type: QueueType | None) -> AppliedPolicies:
        return AppliedPolicies(
            self._policies.first(name, queue_type), self._operator_policies.first(name, queue_type)
        )


class _Matcher:
    """Policies of one kind, by object type."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._ordered = sorted(policies, key=lambda policy: (-policy.priority, policy.name))
        self._by_type: dict[QueueType | None, _Patterns] = {}

    def first(self, name: str, queue_type: QueueType | None) -> Policy | None:
        """Return the policy of an object; None: no policy matches it."""
        if not self._ordered:
            return None
        patterns = self._by_type.get(queue_type)
        if patterns is None:
            policies = [policy for policy in self._ordered if applies(policy, queue_type)]
            patterns = self._by_type[queue_type] = _Patterns(policies)
        return patterns.first(name)


def applies(policy: Policy, queue_type: QueueType | None) -> bool:
    """Tell whether a policy applies to objects of a type, whatever their names; None: exchanges.

    A key that a queue type does not support excludes its queues.
    """
    if not policy.applies_to.covers(queue_type):
        return False
    keys = (KEYS[name] for name in policy.definition if name in KEYS)
    return queue_type is None or not any(queue_type in key.unsupported for key in keys)


class _Patterns:
    """The patterns of policies in order, indexed by their form."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self._exact: dict[str, int] = {}
        self._compared: list[tuple[int, _Test]] = []
        self._searched: list[int] = []
        for index, policy in enumerate(policies):
            literal = _literal(policy.pattern)
            if literal is not None and literal.is_exact:
                self._exact.setdefault(literal.text, index)
            elif literal is None or (literal.text and len(self._compared) == COMPARED_MAX):
                self._searched.append(index)
            else:
                self._compared.append((index, literal.test()))
                if not literal.text:
                    # It matches every name: no later policy is the first.
                    break
        self._search = regex.set_searcher([policies[index].pattern for index in self._searched])

    def first(self, name: str) -> Policy | None:
        """Return the first policy whose pattern is found in a name."""
        none = len(self._policies)
        found = self._exact.get(name, none)
        for index, matches in self._compared:
            if index >= found:
                break
            if matches(name):
                found = index
                break
        if self._searched and self._searched[0] < found:
            found = min([found, *(self._searched[each] for each in self._search(name))])
        return self._policies[found] if found < none else None


class _Literal(NamedTuple):
    """A pattern that is a text, at the start of a name, at its end, or both."""

    at_start: bool
    text: str
    at_end: bool

    @property
    def is_exact(self) -> bool:
        """Whether it matches a single name."""
        return self.at_start and self.at_end

    def test(self) -> _Test:
        """Return a function that tells whether a name matches."""
        text = self.text
        if self.at_start:
            return lambda name: name.startswith(text)
        if self.at_end:
            return lambda name: name.endswith(text)
        return lambda name: text in name


def _literal(pattern: str) -> _Literal | None:
    """Return a pattern as a literal; None: it is another expression.

    A `.*` at the end of an expression that is searched for changes nothing.
    """
    form = _LITERAL.fullmatch(pattern)
    if form is None:
        return None
    return _Literal(bool(form[1]), _ESCAPE.sub(r"\1", form[2]), form[3] == "$")
