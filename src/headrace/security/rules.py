"""An authorizer that combines rules from several sources.

Kafka's ACLs are one source (`acl_rules`); another protocol's permissions are another, mapped to the
same resources and operations. A denial by any source overrides the others.
"""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import NamedTuple, Protocol

from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import LOCAL_LISTENER, Identity, Principal

KNOWN_ANSWERS_MAX = 16_384
"""Maximum cached decisions; when exceeded, or when a rule changes, the cache is cleared."""


class Ruling(IntEnum):
    """The decision of one rule source."""

    UNRULED = 0
    """The source has no rule for the resource, for any principal."""
    SILENT = 1
    """The source has rules for the resource, but none that applies."""
    ALLOWED = 2
    DENIED = 3


class Reach(NamedTuple):
    """Names and prefixes of resources of a type that an identity is allowed or denied."""

    allowed: Sequence[AbstractSet[str]]
    allowed_prefixes: Sequence[AbstractSet[str]]
    denied: Sequence[AbstractSet[str]]
    denied_prefixes: Sequence[AbstractSet[str]]


class RuleSource(Protocol):
    """A set of rules in memory. Called on the deciding thread."""

    @property
    def version(self) -> int:
        """Version of the rules: grows whenever a decision may have changed."""

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Return the decision of these rules."""

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return the resource names of the type in rules that apply to the identity."""


class RuleAuthorizer:
    """An `Authorizer` that combines the rules of its sources like Kafka's StandardAuthorizer."""

    allows_all = False

    def __init__(
        self,
        sources: Sequence[RuleSource],
        *,
        super_users: Collection[Principal] = (),
        allow_unruled: bool = False,
    ) -> None:
        """Create an authorizer that combines `sources`.

        `super_users` may do everything; `allow_unruled`: allow access to resources without any
        rule.
        """
        self.sources = tuple(sources)
        self._super_users = frozenset(super_users)
        self._allow_unruled = allow_unruled
        self._known: dict[tuple[Identity, Operation, Resource], bool] = {}
        self._known_at = -1

    def add(self, source: RuleSource) -> None:
        """Add a rule source."""
        self.sources = (*self.sources, source)
        self._known_at = -1

    @property
    def version(self) -> int:
        """Version of the rules: grows with each change of any source."""
        # Called for each run of requests and publishes; a generator expression costs twice as much.
        version = 0
        for source in self.sources:
            version += source.version
        return version

    def allows(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        """Return whether the current rules allow the operation."""
        version = self.version
        if version != self._known_at or len(self._known) >= KNOWN_ANSWERS_MAX:
            self._known.clear()
            self._known_at = version
        key = (identity, operation, resource)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._decide(identity, operation, resource)
        return known

    def _decide(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        if self._is_super(identity):
            return True
        rulings = {source.ruling(identity, operation, resource) for source in self.sources}
        strongest = max(rulings, default=Ruling.UNRULED)
        if strongest is Ruling.UNRULED:
            return self._allow_unruled
        return strongest is Ruling.ALLOWED

    def denies(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        """Return whether a current rule denies the operation, which no rule does to super users."""
        return not self._is_super(identity) and any(
            source.ruling(identity, operation, resource) is Ruling.DENIED for source in self.sources
        )

    def _is_super(self, identity: Identity) -> bool:
        # Compare the listener, not the principal: a user may have the same name.
        return identity.listener == LOCAL_LISTENER or identity.principal in self._super_users

    def allows_any(self, identity: Identity, operation: Operation, kind: ResourceType) -> bool:
        """Return whether rules allow a name or prefix that no denial covers entirely."""
        if self._is_super(identity):
            return True
        reaches = [source.reach(identity, operation, kind) for source in self.sources]
        denied = [names for reach in reaches for names in reach.denied]
        if any(ANY_NAME in names for names in denied):
            return False
        if self._allow_unruled:
            return True
        denied_prefixes = [names for reach in reaches for names in reach.denied_prefixes]

        def left(name: str) -> bool:
            return not _covered(name, denied_prefixes)

        return any(left(prefix) for prefix in _all(r.allowed_prefixes for r in reaches)) or any(
            name == ANY_NAME or (left(name) and not any(name in names for names in denied))
            for name in _all(reach.allowed for reach in reaches)
        )


def _all(sets: Iterable[Sequence[AbstractSet[str]]]) -> Iterable[str]:
    return (name for found in sets for names in found for name in names)


def _covered(name: str, prefixes: Sequence[AbstractSet[str]]) -> bool:
    return any(name[:length] in found for found in prefixes for length in range(len(name) + 1))
