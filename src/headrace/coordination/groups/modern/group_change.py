"""The changes that one request or timer makes to a modern group.

Changes are applied at once, so that later decisions see them. Their records are appended as one
atomic batch. If the append fails, the changes are undone before any response shows them.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.model.errors import ErrorCode
from headrace.ports.callbacks import Done
from headrace.shards.journal import KeyValue

P = TypeVar("P")
C = TypeVar("C")
G = TypeVar("G", bound=ModernGroup[Any, Any], covariant=True)


class Turn(Generic[G]):
    """A set of changes of one group, appended together by `finish`."""

    def __init__(self, shard: ShardContext, group: G) -> None:
        self.shard = shard
        self.group = group
        self._records: list[KeyValue] = []
        self._undo: list[Callable[[], object]] = []
        self._after: list[Callable[[], object]] = []
        self._appended = False
        self._failed = False

    def change(
        self: "Turn[ModernGroup[P, C]]",
        change: C | GroupEpoch | TargetEpoch | MemberTarget[P],
    ) -> None:
        """Apply `change` and queue its record."""
        group = self.group
        former = group.apply(change)
        self._undo.append(lambda: group.apply(former))
        self._records.append(group.record(change))

    def write(self, *key_values: KeyValue) -> None:
        """Queue records that are not the group's own, to be appended with the others."""
        self._records.extend(key_values)

    def also(self, undo: Callable[[], object]) -> None:
        """Register `undo` for another change, to be called if the append fails."""
        self._undo.append(undo)

    def after(self, act: Callable[[], object]) -> None:
        """Call `act` after the append succeeded, for effects that cannot be undone."""
        self._after.append(act)

    def take_back(self) -> None:
        """Undo all changes of this turn and drop its records."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self._records.clear()

    def finish(self, done: Done[ErrorCode | None]) -> None:
        """Append the records; call `done` once they and all earlier ones are committed, or on
        failure.

        Without changes, `done` waits only for earlier records.
        """

        def settled(error: ErrorCode | None) -> None:
            if error is not None and not self._appended:
                self._failed = True
                self.take_back()
            done(error)

        self.shard.journal.append_now(self._records, settled)
        self._appended = True
        if not self._failed:
            for act in self._after:
                act()
