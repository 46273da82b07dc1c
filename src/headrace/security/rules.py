"""An authorizer that decides by rules, from as many sources as there are kinds of doors.

Kafka's ACLs are one source (`acl_rules`); what another protocol calls its permissions is another,
mapped to the same resources and operations. A denial by any source wins over what others allow.
"""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from typing import NamedTuple, Protocol

from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import LOCAL_LISTENER, Identity, Principal

KNOWN_ANSWERS_MAX = 16_384
"""How many answers are kept until a rule changes; one more, and they are forgotten."""


class Ruling(IntEnum):
    """What one source says of one question."""

    UNRULED = 0
    """It has no rule at all of the resource, for anybody."""
    SILENT = 1
    """It has rules of the resource, and none that speaks of this."""
    ALLOWED = 2
    DENIED = 3


class Reach(NamedTuple):
    """To which resources of a type somebody may, and may not, do something: names and prefixes."""

    allowed: Sequence[AbstractSet[str]]
    allowed_prefixes: Sequence[AbstractSet[str]]
    denied: Sequence[AbstractSet[str]]
    denied_prefixes: Sequence[AbstractSet[str]]


class RuleSource(Protocol):
    """Rules of one kind, in memory. Asked on the deciding thread."""

    @property
    def version(self) -> int:
        """Grows whenever a ruling may be another."""

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Return what the rules say of it."""

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return which resources of the type the rules name, for whoever asks."""


class RuleAuthorizer:
    """Decides by the rules of all its sources: `Authorizer`, as Kafka's StandardAuthorizer."""

    allows_all = False

    def __init__(
        self,
        sources: Sequence[RuleSource],
        *,
        super_users: Collection[Principal] = (),
        allow_unruled: bool = False,
    ) -> None:
        """`super_users` may do everything; `allow_unruled`: all may, where no rule is of it."""
        self.sources = tuple(sources)
        self._super_users = frozenset(super_users)
        self._allow_unruled = allow_unruled
        self._known: dict[tuple[Identity, Operation, Resource], bool] = {}
        self._known_at = -1

    def add(self, source: RuleSource) -> None:
        """Decide by this source too."""
        self.sources = (*self.sources, source)
        self._known_at = -1

    @property
    def version(self) -> int:
        """Grows with every change of any source."""
        # Asked with every run of requests and publishes: a generator costs twice as much.
        version = 0
        for source in self.sources:
            version += source.version
        return version

    def allows(self, identity: Identity, operation: Operation, resource: Resource) -> bool:
        """Tell whether he may do it, by rules as they are now."""
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

    def _is_super(self, identity: Identity) -> bool:
        # By the listener, not by the principal: a user may be named like it.
        return identity.listener == LOCAL_LISTENER or identity.principal in self._super_users

    def allows_any(self, identity: Identity, operation: Operation, kind: ResourceType) -> bool:
        """Tell whether rules allow it for a name or prefix, and no denial covers all of that."""
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
