"""The rules of listeners without access control, when no authorizer is configured."""

from collections.abc import Iterable

from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity
from headrace.security.rules import Reach, Ruling


class OpenListeners:
    """A `rules.RuleSource` that allows everything to connections of certain listeners."""

    version = 0

    def __init__(self, names: Iterable[str]) -> None:
        """Create a source of rules for listeners.

        `names`: those listeners; for other listeners this source has no rule.
        """
        self._names = frozenset(names)

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Return ALLOWED for these listeners, else SILENT."""
        return Ruling.ALLOWED if identity.listener in self._names else Ruling.SILENT

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return a reach of all resources for these listeners, else of none."""
        everything = [frozenset({ANY_NAME})] if identity.listener in self._names else []
        return Reach(everything, [], [], [])
