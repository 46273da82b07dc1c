"""A classic group: its members, its generation, and values derived from them.

The rules of each request are in `join`, `sync`, `membership` and `rebalance`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.coordination.groups.classic.member import ClassicMember
from headrace.coordination.groups.classic.states import GroupState, step
from headrace.coordination.groups.classic.subscription import CONSUMER_PROTOCOL, subscribed_topics
from headrace.coordination.groups.messages import (
    NO_GENERATION,
    JoinAnswer,
    JoinedMember,
    SyncAnswer,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import invariant
from headrace.ports.callbacks import Done

if TYPE_CHECKING:
    from headrace.ports.deadlines import Deadline


class ClassicGroup:
    """A classic consumer group; without a protocol type it has only committed offsets."""

    def __init__(
        self,
        group_id: str,
        now_ms: int,
        *,
        generation: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_since_ms = now_ms
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        """Members by id, in the order of joining."""
        self.static_members: dict[str, str] = {}
        """Member id of each static member, by instance id."""
        self.pending_joins: dict[str, Deadline] = {}
        """Member ids issued to clients that have not joined with them yet (KIP-394), with
        timeouts."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup yet."""
        self.subscribed: frozenset[str] | None = None
        """Topics subscribed by any member; None if a subscription cannot be decoded."""
        self.new_member_added = False
        """Whether a member joined during the initial rebalance delay, which then is extended."""
        self.assigned_generation = NO_GENERATION
        """The generation whose assignment the leader has sent, committed or in flight."""
        self.join_deadline: Deadline | None = None
        self.sync_deadline: Deadline | None = None
        self._awaiting_join = 0
        self._supporters: Counter[str] = Counter()

    # What is so

    @property
    def awaiting_join(self) -> int:
        """How many members wait in JoinGroup for the next generation."""
        return self._awaiting_join

    @property
    def all_joined(self) -> bool:
        """Whether all members, and all issued member ids, have joined the next generation."""
        return len(self.members) == self._awaiting_join and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member in ms; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def is_consumer(self) -> bool:
        """Whether the members are consumers, whose subscriptions the broker can decode."""
        return self.protocol_type == CONSUMER_PROTOCOL

    def subscribes(self, topic: str) -> bool:
        """Return whether a member may be subscribed to `topic`, so that its offsets must stay."""
        return self.is_consumer if self.subscribed is None else topic in self.subscribed

    def supports(self, protocol_type: str, names: tuple[tuple[str, bytes], ...]) -> bool:
        """Return whether a member with these protocols can join: one must be supported by all
        members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == everybody for name, _ in names
        )

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member if member id and instance id match.

        ApiError UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has taken the instance id.
        """
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def selected_protocol(self) -> str:
        """Return the protocol that most members prefer, of those that all members support."""
        everybody = len(self.members)
        candidates = frozenset(n for n, count in self._supporters.items() if count == everybody)
        votes: Counter[str] = Counter()
        for member in self.members.values():
            choice = member.vote(candidates)
            invariant(choice is not None, f"{member.member_id} knows no protocol of its group")
            votes[choice or ""] += 1
        return votes.most_common(1)[0][0]

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return all members with their subscriptions, for the leader's JoinGroup response."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def join_answer(
        self, member_id: str, *, with_members: bool, skip_assignment: bool = False
    ) -> JoinAnswer:
        """Return the JoinGroup response that puts `member_id` into the current generation."""
        return JoinAnswer(
            ErrorCode.NONE,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            skip_assignment,
            self.joined_members() if with_members else (),
        )

    # What changes it

    def transition(self, target: GroupState, now_ms: int) -> None:
        """Change the state to `target`; an invariant fails if `NEXT` does not allow it."""
        before = self.state
        self.state = step(before, target)
        self.previous_state = before
        self.state_since_ms = now_ms

    def add(self, member: ClassicMember) -> None:
        """Add a member that supports a common protocol; the first member becomes the leader."""
        if member.instance_id is not None:
            invariant(member.instance_id not in self.static_members, "instance id taken twice")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        if member.awaits_join:
            self._awaiting_join += 1
        self.forget_pending_join(member.member_id)

    def update(self, member: ClassicMember, protocols: tuple[tuple[str, bytes], ...]) -> None:
        """Replace the protocols of `member`."""
        self._supporters.subtract(name for name, _ in member.protocols)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)

    def await_join(self, member: ClassicMember, done: Done[JoinAnswer]) -> None:
        """Store `done` for the next generation; answer a JoinGroup it replaces
        REBALANCE_IN_PROGRESS."""
        former = member.join_done
        if former is None:
            self._awaiting_join += 1
        member.join_done = done
        if former is not None:
            former(JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def answer_join(self, member: ClassicMember, answer: JoinAnswer) -> None:
        """Answer the waiting JoinGroup of `member`, if any."""
        done = member.join_done
        if done is None:
            return
        member.join_done = None
        self._awaiting_join -= 1
        done(answer)

    def answer_sync(self, member: ClassicMember, answer: SyncAnswer) -> bool:
        """Answer a waiting SyncGroup of `member`; return False if none waits."""
        done = member.sync_done
        if done is None:
            return False
        member.sync_done = None
        done(answer)
        return True

    def remove(self, member_id: str) -> None:
        """Remove a member or an issued member id; elect another leader if it was the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract(name for name, _ in member.protocols)
            if member.awaits_join:
                self._awaiting_join -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
            member.end_session_watch()
            # Answer its waiting requests: no later event would.
            member_gone = ErrorCode.UNKNOWN_MEMBER_ID
            join_done, member.join_done = member.join_done, None
            if join_done is not None:
                join_done(JoinAnswer(member_gone))
            self.answer_sync(member, SyncAnswer(member_gone))
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs.pop(member_id, None)
        self.forget_pending_join(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_member: ClassicMember) -> None:
        """Replace static member `old_id` by `new_member`; waiting requests of the old one are
        fenced."""
        old = self.members.pop(old_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, JoinAnswer(fenced, old_id))
        self.answer_sync(old, SyncAnswer(fenced))
        old.end_session_watch()
        self.members[new_member.member_id] = new_member
        self.static_members[instance_id] = new_member.member_id
        if self.leader == old_id:
            self.leader = new_member.member_id
        if old_id in self.pending_syncs:
            del self.pending_syncs[old_id]
            self.pending_syncs[new_member.member_id] = None

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that have joined; return False if none has."""
        joined = [member.member_id for member in self.members.values() if member.awaits_join]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation: state CompletingRebalance, or Empty without members."""
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.protocol_name = self.selected_protocol() if self.members else None
        self.refresh_subscriptions()
        target = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        self.transition(target, now_ms)
        self.pending_syncs.clear()

    def refresh_subscriptions(self) -> None:
        """Recompute the topics that members subscribe to."""
        self.subscribed = None
        if not self.is_consumer:
            return
        topics: set[str] = set()
        for member in self.members.values():
            read = subscribed_topics(member.metadata(self.protocol_name))
            if read is None:
                return
            topics |= read
        self.subscribed = frozenset(topics)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Store each member's assignment; a member that is missing gets none."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def forget_pending_join(self, member_id: str) -> None:
        """Remove an issued member id: no JoinGroup with it is awaited."""
        deadline = self.pending_joins.pop(member_id, None)
        if deadline is not None:
            deadline.cancel()

    def end_timers(self) -> None:
        """Cancel all timers of the group."""
        for deadline in (self.join_deadline, self.sync_deadline, *self.pending_joins.values()):
            if deadline is not None:
                deadline.cancel()
        for member in self.members.values():
            member.end_session_watch()
