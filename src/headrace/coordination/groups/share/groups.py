"""The share groups of one partition of `__consumer_offsets`: records in, groups out."""

from collections.abc import Iterator

from headrace.coordination.groups.background_assigning import INITIAL_EPOCH
from headrace.coordination.groups.share.group import ShareGroup, ShareMember, as_parts
from headrace.wire.kafka.coordinator_records import share_groups as wire


class ShareGroups:
    """By group id. `replay` is handed every record of the partition."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, ShareGroup] = {}

    def __iter__(self) -> Iterator[ShareGroup]:
        return iter(tuple(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def get(self, group_id: str) -> ShareGroup | None:
        """The group, None where there is none."""
        return self._groups.get(group_id)

    def add(self, group: ShareGroup) -> None:
        """A group that was just made."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        """The group is gone."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            group.stop_assigning()

    def clear(self) -> None:
        """Another broker has them now: nobody's session ends here any more."""
        for group in self:
            group.stop_assigning()
            for member in group.members.values():
                if member.session is not None:
                    member.session.cancel()
        self._groups.clear()

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Apply a record; False where it is not about a share group. CorruptBatch."""
        about = wire.decode_key(key)
        if about is None:
            return False
        if value is None:
            self._delete(about)
        else:
            self._set(about, wire.decode_value(about.type, value))
        return True

    def _group(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ShareGroup(group_id)
        return group

    def _set(self, about: wire.ShareGroupKey, value: wire.Value) -> None:
        group = self._group(about.group)
        match value:
            case wire.MemberValue():
                member = self._member(group, about.member_id)
                member.rack_id = value.rack_id
                member.client_id, member.client_host = value.client_id, value.client_host
                member.topics = tuple(sorted(value.topics))
            case wire.GroupValue():
                group.epoch = max(value.epoch, INITIAL_EPOCH)
                group.metadata_hash = value.metadata_hash
            case wire.TargetValue():
                group.target_epoch = max(value.epoch, INITIAL_EPOCH)
                group.target_at_ms = value.timestamp
            case wire.CurrentValue():
                member = self._member(group, about.member_id)
                member.epoch, member.previous_epoch = value.epoch, value.previous_epoch
                member.assigned = as_parts(value.partitions)
            case wire.StatePartitionsValue():
                # What was being made or deleted when the record was written may be there or not:
                # who subscribes has it made, and what is left over is nobody's.
                group.initialized = dict(value.initialized)
            case _:
                group.target[about.member_id] = as_parts(value)

    @staticmethod
    def _member(group: ShareGroup, member_id: str) -> ShareMember:
        member = group.members.get(member_id)
        if member is None:
            member = group.members[member_id] = ShareMember(member_id)
        return member

    def _delete(self, about: wire.ShareGroupKey) -> None:
        group = self._groups.get(about.group)
        if group is None:
            return
        if about.type == wire.GROUP:
            del self._groups[about.group]
        elif about.type == wire.MEMBER:
            group.members.pop(about.member_id, None)
        elif about.type == wire.TARGET_MEMBER:
            group.target.pop(about.member_id, None)
        elif about.type == wire.STATE_PARTITIONS:
            group.initialized = {}
