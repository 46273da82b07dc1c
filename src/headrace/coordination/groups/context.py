"""The state shared by all handlers of a shard: groups, offsets, journal, timers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.broker.metadata_image import MetadataImage
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.commits_in_flight import CommitsInFlight
from headrace.coordination.groups.committed_offsets import OffsetStore
from headrace.coordination.groups.limits import GroupLimits
from headrace.coordination.groups.modern.group import ModernGroup
from headrace.coordination.groups.modern.groups import ModernGroups
from headrace.ports.clock import Clock, Random
from headrace.ports.deadlines import Deadlines
from headrace.shards.journal import Journal


@dataclass(slots=True)
class ShardContext:
    """The state and interfaces of one shard, passed to every handler."""

    clock: Clock
    random: Random
    limits: GroupLimits
    journal: Journal
    deadlines: Deadlines
    image: Callable[[], MetadataImage]
    """Returns the current metadata image."""
    group_setting: Callable[[str, str], int]
    """Returns an integer setting by group id and key (`consumer.session.timeout.ms`): the group's
    own value, else the broker's."""
    run: Callable[[Callable[[], Any], Callable[[Any], None]], None]
    """Runs work on a thread, then calls back with its result or error (`ports.disk.Disk.run`)."""
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    """Classic groups by id, including groups that have only committed offsets."""
    modern: ModernGroups = field(default_factory=ModernGroups)
    """Consumer groups (KIP-848) and share groups by id; an id is in one of the two tables only."""
    offsets: OffsetStore = field(default_factory=OffsetStore)
    commits_in_flight: CommitsInFlight = field(default_factory=CommitsInFlight)
    """OffsetCommits that are not committed yet, counted by group id."""

    def setting_of(self, group: ModernGroup[Any, Any], name: str) -> int:
        """Return an integer group setting by the name common to all kinds
        (`session.timeout.ms`)."""
        return self.group_setting(group.group_id, f"{group.kind}.{name}")

    def new_id(self) -> str:
        """Return a new random id."""
        return self.random.uuid().hex()

    def new_member_id(self, prefix: str) -> str:
        """Return a new member id: the client id or instance id as `prefix`, and a UUID."""
        digits = self.random.uuid().hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return "-".join((prefix, *parts))
