"""What one request, or one timer, changes in a group.

Changes are made at once, so that what is decided next sees them; their records go to the log as one
batch, all or none. If the log refuses them they are taken back, and nobody has seen them.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.runtime.journal import KeyValue
from headrace.model.errors import ErrorCode
from headrace.ports.callbacks import Done

P = TypeVar("P")
C = TypeVar("C")
G = TypeVar("G", bound=ModernGroup[Any, Any], covariant=True)


class Turn(Generic[G]):
    """Changes of one group, until `finish`."""

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
        """Let `change` be so, and its record written."""
        group = self.group
        former = group.apply(change)
        self._undo.append(lambda: group.apply(former))
        self._records.append(group.record(change))

    def write(self, *key_values: KeyValue) -> None:
        """Write records that are not this group's own, with the others."""
        self._records.extend(key_values)

    def also(self, undo: Callable[[], object]) -> None:
        """Note something else that was changed: `undo` takes it back."""
        self._undo.append(undo)

    def after(self, act: Callable[[], object]) -> None:
        """Call `act` once the log has taken the records: what cannot be taken back."""
        self._after.append(act)

    def take_back(self) -> None:
        """Undo this turn: nothing of it has happened."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self._records.clear()

    def finish(self, done: Done[ErrorCode | None]) -> None:
        """Append; `done` once all of it, and all before it, is committed, or cannot be.

        Without any change `done` waits just for what others changed before.
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
