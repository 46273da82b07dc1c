"""The modern groups of one shard."""

from typing import Any, TypeVar

from headrace.coordination.groups.modern.group import ModernGroup

G = TypeVar("G", bound=ModernGroup[Any, Any])


class ModernGroups(dict[str, ModernGroup[Any, Any]]):
    """By group id, whatever their kind."""

    def find(self, kind: type[G], group_id: str) -> G | None:
        """Return the group of that id and kind; None where there is none."""
        group = self.get(group_id)
        return group if isinstance(group, kind) else None

    def all_of(self, kind: type[G]) -> list[G]:
        """Return every group of one kind."""
        return [group for group in self.values() if isinstance(group, kind)]
