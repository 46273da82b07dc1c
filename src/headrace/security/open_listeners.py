"""What holds of listeners where no authorizer is configured, as rules."""

from collections.abc import Iterable

from headrace.security.acl import ANY_NAME
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.security.identity import Identity
from headrace.security.rules import Reach, Ruling


class OpenListeners:
    """Who came through a listener that nobody guards may do everything: `rules.RuleSource`."""

    version = 0

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are those listeners'; through the others nobody may do anything by this rule."""
        self._names = frozenset(names)

    def ruling(self, identity: Identity, operation: Operation, resource: Resource) -> Ruling:
        """Allow it by the listener alone."""
        return Ruling.ALLOWED if identity.listener in self._names else Ruling.SILENT

    def reach(self, identity: Identity, operation: Operation, kind: ResourceType) -> Reach:
        """Return all resources, or none."""
        everything = [frozenset({ANY_NAME})] if identity.listener in self._names else []
        return Reach(everything, [], [], [])
