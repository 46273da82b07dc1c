"""Random lives of a group: what must hold of it whatever its members, the disk and crashes do."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import JoinAnswer, Leaver, OffsetToCommit, SyncAnswer
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import Room, Settings
from tests.support.examples import examples

NONE = ErrorCode.NONE
CLIENTS = 4
PROTOCOLS = [(("range", b"1"),), (("range", b"2"), ("sticky", b"2"))]
WHICH = st.integers(0, CLIENTS - 1)


@dataclass
class Client:
    """A consumer as its library would behave, and at times misbehave."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    members: tuple[str, ...] = ()
    joining: list[JoinAnswer] = field(default_factory=list)
    syncing: list[SyncAnswer] = field(default_factory=list)

    @property
    def identity(self) -> str:
        """Who it is over the replacements of a static member."""
        return self.instance or self.member_id


@dataclass
class Sent:
    """A commit under way."""

    offset: int
    may_count: bool
    codes: list[ErrorCode]


class GroupMachine(RuleBasedStateMachine):
    """One group, four clients (the last one static), one partition that flushes when told."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(
            Settings(
                group_initial_rebalance_delay_ms=1000,
                group_max_size=3,
                offsets_retention_check_interval_ms=1 << 40,
            )
        )
        self.clients = [Client(None) for _ in range(CLIENTS - 1)] + [Client("static")]
        self.plan = 0
        self.offset = 0
        self.sent: list[Sent] = []
        self.acked = -1
        self.seen = -1
        self.delivered: dict[tuple[int, str], bytes] = {}
        self.plans: dict[int, str] = {}
        self.generation = 0

    # What clients do

    @rule(which=WHICH, protocols=st.sampled_from(PROTOCOLS), forgets=st.booleans())
    def join(self, which: int, protocols: tuple[tuple[str, bytes], ...], forgets: bool) -> None:
        client = self.clients[which]
        if forgets:
            client.member_id = ""
        client.joining = self.room.join(
            client.member_id, instance=client.instance, protocols=protocols
        )
        client.syncing = []
        self.hear(client)

    def hear(self, client: Client) -> None:
        """Take the answers that are there."""
        if client.joining:
            answer = client.joining.pop()
            if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = answer.member_id
                client.joining = self.room.join(
                    client.member_id, instance=client.instance, protocols=PROTOCOLS[0]
                )
                if client.joining:
                    self.hear(client)
            elif answer.error is NONE:
                client.member_id, client.generation = answer.member_id, answer.generation
                client.leader = "" if answer.skip_assignment else answer.leader
                client.members = tuple(one.member_id for one in answer.members)
            else:
                client.generation = -1
        if client.syncing:
            self.heard_assignment(client, client.syncing.pop())

    def heard_assignment(self, client: Client, answer: SyncAnswer) -> None:
        if answer.error is not NONE or not answer.assignment:
            return
        key = (client.generation, client.identity)
        assert self.delivered.setdefault(key, answer.assignment) == answer.assignment
        plan, _, whose = answer.assignment.decode().partition("|")
        assert self.plans.setdefault(client.generation, plan) == plan
        assert client.instance is not None or whose == client.member_id

    @rule(which=WHICH)
    def sync(self, which: int) -> None:
        client = self.clients[which]
        self.hear(client)
        if client.generation < 0:
            return
        plan: dict[str, bytes] = {}
        if client.leader == client.member_id:
            self.plan += 1
            plan = {one: f"{self.plan}|{one}".encode() for one in client.members}
        client.syncing = self.room.sync(
            client.member_id, client.generation, plan, instance=client.instance
        )
        self.hear(client)

    @rule(which=WHICH)
    def beat(self, which: int) -> None:
        client = self.clients[which]
        self.hear(client)
        self.room.beat(client.member_id, client.generation, instance=client.instance)

    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        client = self.clients[which]
        self.room.groups.leave("g", [Leaver(client.member_id, client.instance)])
        client.generation = -1

    @rule(members=st.lists(WHICH, min_size=1, max_size=3, unique=True))
    def a_generation_comes_about(self, members: list[int]) -> None:
        """What random steps seldom bring: all join in time, and all sync."""
        for which in members:
            self.join(which, PROTOCOLS[0], False)
        for _ in range(25):
            self.room.clock.advance(1)
            if all(self.clients[which].joining for which in members):
                break
        for _ in range(2):  # the leader is among them, at whatever place
            for which in members:
                self.sync(which)

    @rule(which=WHICH, older=st.sampled_from([0, 0, 0, 1, 2]))
    def commit(self, which: int, older: int) -> None:
        client = self.clients[which]
        self.hear(client)
        generation = client.generation - older
        group = self.room.groups.shard("g").groups.get("g")
        may_count = (
            group is None
            or (group.state is GroupState.EMPTY and generation < 0)
            or (group.generation == generation and client.member_id in group.members)
        )
        self.offset += 1
        codes = self.room.commit(
            client.member_id,
            generation,
            [OffsetToCommit("t", 0, self.offset)],
            instance=client.instance,
            turn=False,
        )
        self.sent.append(Sent(self.offset, may_count, codes))

    # What the world does

    @rule(seconds=st.sampled_from([0.0, 0.0, 0.5, 2.0, 9.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.room.clock.advance(seconds)

    @rule()
    def the_disk_hangs(self) -> None:
        self.room.partition.hold = True

    @rule()
    def the_disk_flushes(self) -> None:
        self.room.partition.hold = False
        self.room.partition.flush()

    @precondition(lambda self: self.room.partition.refusal is None)
    @rule()
    def an_append_fails(self) -> None:
        self.room.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        self.room.clock.advance()
        self.room.partition.refusal = None

    @rule()
    def crash(self) -> None:
        before = self.room
        self.room = before.restart()
        before.groups.close()
        for client in self.clients:
            client.joining, client.syncing = [], []
        self.settle()
        self.sent.clear()

    # What must hold

    def settle(self) -> None:
        """Look at the commits answered so far."""
        for sent in self.sent:
            if sent.codes and sent.codes[0] is NONE:
                assert sent.may_count, "a commit of another generation was taken"
                self.acked = max(self.acked, sent.offset)
        self.sent = [sent for sent in self.sent if not sent.codes]

    @invariant()
    def acknowledged_offsets_are_visible_and_never_go_back(self) -> None:
        self.settle()
        visible = self.room.committed()
        now = -1 if visible is None else visible
        assert now >= self.acked
        assert now >= self.seen
        self.seen = now

    @invariant()
    def counts_agree_with_members(self) -> None:
        group = self.room.groups.shard("g").groups.get("g")
        if group is None:
            return
        assert group.awaiting_join == sum(one.awaits_join for one in group.members.values())
        assert set(group.static_members.values()) <= set(group.members)
        assert set(group.pending_syncs) <= set(group.members)
        assert not set(group.pending_joins) & set(group.members)
        assert (group.leader in group.members) if group.members else group.leader is None
        # group.max.size holds for those who join; those who were there before leave in time.
        assert len(group.members) <= 2 * self.room.settings.group_max_size
        assert group.members or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)

    @invariant()
    def a_restart_shows_what_was_answered(self) -> None:
        shadow = self.room.restart()
        try:
            assert shadow.committed() == self.room.committed()
            group = self.room.groups.shard("g").groups.get("g")
            if group is None or group.state is not GroupState.STABLE:
                return
            again = shadow.group()
            assert again.generation == group.generation
            assert assignments(again) == assignments(group)
        finally:
            shadow.groups.close()


def assignments(group: ClassicGroup) -> dict[str, bytes]:
    """What each member reads; a static one by its instance."""
    return {one.instance_id or one.member_id: one.assignment for one in group.members.values()}


GroupMachine.TestCase.settings = settings(
    max_examples=examples(80),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGroup = GroupMachine.TestCase
