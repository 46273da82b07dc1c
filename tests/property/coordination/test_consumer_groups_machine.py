"""Random lives of a consumer group: what must hold whatever members, topics, disk and kills do."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.consumer.model import JOIN_EPOCH, Member
from headrace.coordination.groups.modern import target_assignment
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, cluster, grown, topic_id
from tests.support.coordination.groups_kit import Room, Settings
from tests.support.examples import examples

WHO = st.integers(0, 3)
TOPICS = ["t", "u", "ux"]
NAMES = [frozenset({"t"}), frozenset({"u"}), frozenset({"t", "u"})]
REGEXES = ["u.*", "t|u"]


def picture(group: ConsumerGroup) -> dict[str, object]:
    """All that the log is to bring back."""
    return {
        "epochs": (group.epoch, group.metadata_hash, group.target_epoch),
        "members": group.members,
        "target": group.target,
        "regexes": group.regexes,
        "static": group.static_members,
        "state": group.state,
        "counts": (group.regex_members, group.assignors, group.classic_members),
        "topics": group.subscribed_topics(),
        "owners": {
            (topic, part): group.owner(topic_id(topic), part)
            for topic in TOPICS
            for part in range(9)
        },
    }


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group, four consumers (the third static, the last by expression), three topics."""

    at_once_max = target_assignment.AT_ONCE_MAX

    def __init__(self) -> None:
        super().__init__()
        target_assignment.AT_ONCE_MAX = self.at_once_max
        self.counts = {"t": 3, "u": 2}
        self.room = Room(
            Settings(
                group_consumer_assignment_interval_ms=500,
                offsets_retention_check_interval_ms=1 << 40,
            ),
            image=cluster(self.counts),
        )
        self.clients = [
            Consumer(self.room, "a"),
            Consumer(self.room, "b", topics=frozenset({"t", "u"})),
            Consumer(self.room, "c", instance="static"),
            Consumer(self.room, "d", topics=None, regex="u.*"),
        ]
        self.runs = 0

    @property
    def group(self) -> ConsumerGroup | None:
        return self.room.groups.shard("g").modern.find(ConsumerGroup, "g")

    # What clients do

    @rule(who=WHO)
    def beat(self, who: int) -> None:
        one = self.clients[who]
        one.hear()
        if not one.waiting:
            one.send()
            one.hear()

    @rule(who=WHO, slow=st.booleans())
    def is_slow(self, who: int, slow: bool) -> None:
        one = self.clients[who]
        one.slow = slow
        if not slow:
            one.obey()

    @rule(who=WHO, says=st.booleans())
    def says_what_it_owns(self, who: int, says: bool) -> None:
        self.clients[who].tells_owned = says

    @rule(who=WHO, loses=st.booleans())
    def answer_is_lost(self, who: int, loses: bool) -> None:
        one = self.clients[who]
        one.send()
        one.waiting = []

    @rule(who=st.integers(0, 1), topics=st.sampled_from(NAMES))
    def subscribe(self, who: int, topics: frozenset[str]) -> None:
        one = self.clients[who]
        one.topics = topics
        if one.epoch > 0:
            one.send(topics=topics)
            one.hear()

    @rule(regex=st.sampled_from(REGEXES))
    def subscribe_by_expression(self, regex: str) -> None:
        one = self.clients[3]
        one.regex = regex
        if one.epoch > 0:
            one.send(regex=regex)
            one.hear()

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        if not self.room.partition.hold:
            self.clients[who].leave()

    @rule()
    def static_member_goes_and_comes(self) -> None:
        one = self.clients[2]
        if self.room.partition.hold:
            return
        one.leave(-2)
        self.runs += 1
        one.member_id = f"c{self.runs}"
        one.send()
        one.hear()

    # What the world does

    @rule(seconds=st.sampled_from([0.1, 1.0, 12.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.room.clock.advance(seconds)

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 5))
    def topics_change(self, topic: str, count: int) -> None:
        present = self.counts.get(topic, 0)
        if count == 0:
            self.counts.pop(topic, None)
        else:
            self.counts[topic] = max(count, present)
        grown(self.room, self.counts)

    @rule(hold=st.booleans())
    def disk(self, hold: bool) -> None:
        self.room.partition.hold = hold
        if not hold:
            self.room.partition.flush()

    @rule(slow=st.booleans())
    def assignor(self, slow: bool) -> None:
        """Matters where groups count as large: only then is it on a thread."""
        if slow:
            self.room.disk.hold = True
        else:
            self.room.disk.release()

    @rule(refuses=st.booleans())
    def log(self, refuses: bool) -> None:
        self.room.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS if refuses else None

    @rule()
    def kill(self) -> None:
        self.room = self.room.restart()
        for one in self.clients:
            one.room, one.waiting = self.room, []

    @precondition(lambda self: not self.room.partition.hold)
    @rule()
    def the_log_says_the_same(self) -> None:
        present, replayed = (
            self.group,
            self.room.restart().groups.shard("g").modern.find(ConsumerGroup, "g"),
        )
        if present is None or replayed is None:
            assert present is replayed
        else:
            assert picture(replayed) == picture(present)

    @rule()
    def members_go_on_and_it_settles(self) -> None:
        self.log(False)
        self.disk(False)
        self.assignor(False)
        for one in self.clients:
            one.slow, one.tells_owned = False, True
            one.obey()
        for _ in range(40):
            for one in self.clients:
                one.waiting = []
                one.beat()
                if one.error is ErrorCode.UNRELEASED_INSTANCE_ID:
                    self.room.clock.advance(46)
            self.room.clock.advance(0.6)
        group = self.group
        assert group is not None
        assert group.state.value == "Stable"
        owned = sorted(
            (topic, part)
            for one in self.clients
            for topic, parts in one.owned.items()
            for part in parts
        )
        read = group.subscribed_topics() & self.counts.keys()
        assert owned == sorted(
            (topic_id(topic), part) for topic in read for part in range(self.counts[topic])
        )

    # What always holds

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        group = self.group
        if group is None:
            return
        taken: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for part in parts_of(member):
                assert part not in taken, "two members have the same partition"
                taken[part] = member.member_id
                assert group.owner(*part) == member.member_id
        self.consumers_share_nothing(group)

    def consumers_share_nothing(self, group: ConsumerGroup) -> None:
        """Those who are in the group, and do not just think so."""
        reading: dict[tuple[bytes, int], str] = {}
        for one in self.clients:
            member = group.members.get(one.member_id)
            if member is None or one.epoch == JOIN_EPOCH or one.waiting:
                continue
            if one.epoch not in (member.standing.epoch, member.standing.previous_epoch):
                continue
            for topic, parts in one.owned.items():
                for part in parts:
                    assert (topic, part) not in reading, "two read the same partition"
                    reading[topic, part] = one.member_id

    def teardown(self) -> None:
        target_assignment.AT_ONCE_MAX = ConsumerGroupMachine.at_once_max

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        if group is not None:
            assert group.target_epoch <= group.epoch
            for member in group.members.values():
                assert member.standing.epoch <= group.target_epoch


def parts_of(member: Member) -> set[tuple[bytes, int]]:
    standing = member.standing
    return {
        (topic, part)
        for partitions in (standing.assigned, standing.pending)
        for topic, parts in partitions.items()
        for part in parts
    }


ConsumerGroupMachine.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestConsumerGroupMachine = ConsumerGroupMachine.TestCase


class LargeGroupMachine(ConsumerGroupMachine):
    """The same where every assignment after the first is made on a thread."""

    at_once_max = 0


LargeGroupMachine.TestCase.settings = settings(
    ConsumerGroupMachine.TestCase.settings, max_examples=examples(15)
)
TestLargeGroupMachine = LargeGroupMachine.TestCase
