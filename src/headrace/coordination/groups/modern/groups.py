"""The modern groups of one shard."""

from typing import Any, TypeVar

from headrace.coordination.groups.modern.group import ModernGroup

G = TypeVar("G", bound=ModernGroup[Any, Any])


class ModernGroups(dict[str, ModernGroup[Any, Any]]):
    """Modern groups of all kinds, by group id."""

    def find(self, kind: type[G], group_id: str) -> G | None:
        """Return the group with that id and kind; None if the id is unknown or of another kind."""
        group = self.get(group_id)
        return group if isinstance(group, kind) else None

    def all_of(self, kind: type[G]) -> list[G]:
        """Return all groups of one kind."""
        return [group for group in self.values() if isinstance(group, kind)]
