"""What the verbs of a shard share: its groups, its offsets, its way to the log, its time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.committed_offsets import OffsetStore
from headrace.coordination.groups.limits import GroupLimits
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.groups import ModernGroups
from headrace.coordination.runtime.journal import Journal
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines


@dataclass(slots=True)
class ShardContext:
    """One shard's insides, handed to every verb."""

    clock: Clock
    random: Random
    limits: GroupLimits
    journal: Journal
    deadlines: Deadlines
    image: Callable[[], MetadataImage]
    """The cluster as it is now."""
    group_setting: Callable[[str, str], int]
    """A number by a group's id and key (`consumer.session.timeout.ms`): the group's own, or the
    broker's."""
    run: Callable[[Callable[[], Any], Callable[[Any], None]], None]
    """Do work on a thread, then tell its result or its error here (`ports.disk.Disk.run`)."""
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Of the classic protocol, and those that are offsets and nothing else."""
    modern: ModernGroups = field(default_factory=ModernGroups)
    """Consumer groups of the newer protocol, and share groups; an id is in one of the two."""
    offsets: OffsetStore = field(default_factory=OffsetStore)

    def setting_of(self, group: ModernGroup[Any, Any], name: str) -> int:
        """Return a number by the name it has for every kind of group (`session.timeout.ms`)."""
        return self.group_setting(group.group_id, f"{group.kind}.{name}")

    def new_id(self) -> str:
        """Return an id nobody has, made of nothing."""
        return self.random.uuid().hex()

    def new_member_id(self, prefix: str) -> str:
        """Return an id nobody has: the client's id or the instance's, and a UUID."""
        digits = self.random.uuid().hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return "-".join((prefix, *parts))
