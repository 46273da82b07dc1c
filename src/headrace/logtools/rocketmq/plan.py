"""`MovePlan`: what a store has, what becomes of it, and what cannot be moved.

Making a plan reads every message, so damage is known before anything is written.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from headrace.logtools.rocketmq.store import Store, StoreDamaged, StoreRefused
from headrace.logtools.rocketmq.waiting import WaitingMessages
from headrace.model.errors import Malformed
from headrace.model.nouns import INTERNAL_TOPICS
from headrace.wire.rocketmq.group_configs import GroupConfig
from headrace.wire.rocketmq.store.config_files import (
    DELAYS_FILE,
    GROUPS_FILE,
    OFFSETS_FILE,
    TOPICS_FILE,
    StoredOffset,
    decode_delays,
    decode_groups,
    decode_offsets,
    decode_topics,
    is_inherited,
)
from headrace.wire.rocketmq.store.system_names import (
    HELD_TOPICS,
    LMQ_PREFIX,
    REVIVE_GROUP,
    REVIVE_TOPIC_PREFIX,
    ROCKSDB_TOPIC_PREFIX,
    is_system_group,
    is_system_topic,
)
from headrace.wire.rocketmq.topic_configs import TopicConfig
from headrace.wire.rocketmq.topic_names import TOPIC_CHARACTERS_MAX, check_name, kafka_name

T = TypeVar("T")

_DAMAGES_MAX = 1000
"""Damaged messages that are named; the rest is counted."""


class MovedQueue(NamedTuple):
    """A queue: its first offset, the offset behind its last readable message, and what is
    between."""

    queue: int
    start: int
    end: int
    messages: int
    bytes: int


class MovedTopic(NamedTuple):
    """A topic by its RocketMQ name; a queue for each partition."""

    name: str
    config: TopicConfig
    queues: tuple[MovedQueue, ...]


@dataclass(frozen=True)
class LeftOut:
    """Something that is not moved."""

    what: str
    count: int
    why: str
    matters: bool
    """Whether a client would miss it, so that the operator must say that it may be left out."""


@dataclass
class MovePlan:
    """The contents of a store. `make_plan` makes it."""

    waiting: WaitingMessages
    topics: list[MovedTopic] = field(default_factory=list)
    groups: dict[str, GroupConfig] = field(default_factory=dict)
    offsets: list[StoredOffset] = field(default_factory=list)
    """Of groups, as they are stored: none before its queue's first offset."""
    raised: int = 0
    """Offsets that were before their queue's first one."""
    delayed: int = 0
    undecided: int = 0
    left_out: list[LeftOut] = field(default_factory=list)
    damages: list[StoreDamaged] = field(default_factory=list)
    """The first damaged messages."""
    damaged: int = 0
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """By topic and queue: the end in the store, if the last messages before it are damaged."""

    @property
    def messages(self) -> int:
        """The messages of all topics."""
        return sum(queue.messages for topic in self.topics for queue in topic.queues)

    @property
    def bytes(self) -> int:
        """The bytes of these messages in the store."""
        return sum(queue.bytes for topic in self.topics for queue in topic.queues)

    def check_agreed(self, *, leave_out: bool, skip_damaged: bool) -> None:
        """Raise StoreRefused if the operator has not agreed to something that is not moved."""
        if self.damaged and not skip_damaged:
            text = f"{self.damaged:,} messages cannot be read; --skip-damaged moves the rest"
            raise StoreRefused(f"{text}; nothing is written")
        missed = sum(each.matters for each in self.left_out)
        if missed and not leave_out:
            text = f"{missed:,} entries of the plan cannot be moved; --leave-out moves the rest"
            raise StoreRefused(f"{text}; nothing is written")

    def note(self, damage: StoreDamaged) -> None:
        """Note a message that cannot be read."""
        self.damaged += 1
        if len(self.damages) < _DAMAGES_MAX:
            self.damages.append(damage)


def make_plan(store: Store) -> MovePlan:
    """Read a store, every message once. Raises StoreRefused: nothing of it can be moved."""
    behind = store.undispatched()
    if behind:
        text = f"{behind} messages at the end of the commit log are in no queue"
        advice = "start the broker with RocketMQ, stop it with SIGTERM, and try again"
        raise StoreRefused(f"{store.root}: {text}; {advice}")
    plan = MovePlan(WaitingMessages(store, lambda damage: plan.note(damage)))
    offsets = _read(store, OFFSETS_FILE, decode_offsets) or []
    plan.waiting.find(offsets, _read(store, DELAYS_FILE, decode_delays) or {})
    configs = _read(store, TOPICS_FILE, decode_topics) or {}
    for name in sorted({*store.topics(), *configs}):
        _plan_topic(plan, store, name, configs.get(name))
    _plan_waiting(plan)
    _plan_groups(plan, _read(store, GROUPS_FILE, decode_groups) or {})
    _plan_offsets(plan, offsets)
    _plan_popped(plan, store, offsets)
    return plan


def _read(store: Store, name: str, decode: Callable[[str], T]) -> T | None:
    content = store.config(name)
    try:
        return None if content is None else decode(content.decode())
    except (Malformed, UnicodeDecodeError) as error:
        raise StoreRefused(f"{store.root}/config/{name}: {error}") from None


# Topics


def _plan_topic(plan: MovePlan, store: Store, name: str, config: TopicConfig | None) -> None:
    if name in HELD_TOPICS:
        return
    ids = store.queues(name)
    bounds = {queue: store.bounds(name, queue) for queue in ids}
    is_empty = not any(end for _, end in bounds.values())
    if is_system_topic(name) or (config is not None and is_inherited(config)):
        if name.startswith(REVIVE_TOPIC_PREFIX) or is_empty:
            return
        count = sum(end - start for start, end in bounds.values())
        matters = name.startswith(ROCKSDB_TOPIC_PREFIX)
        text = "messages of RocketMQ's brokers for themselves"
        if matters:
            text = "the state of these transactions is in RocksDB (transRocksDBEnable)"
        if count:
            plan.left_out.append(LeftOut(f"topic {name}", count, text, matters))
        return
    problem = _problem(name)
    if problem is not None:
        count = sum(end - start for start, end in bounds.values())
        plan.left_out.append(LeftOut(f"topic {name}", count, problem, count > 0))
        return
    config = config or TopicConfig()
    partitions = max(config.read_queues, config.write_queues, *(queue + 1 for queue in ids), 1)
    queues = tuple(
        _plan_queue(plan, store, name, queue, bounds.get(queue, (0, 0)))
        for queue in range(partitions)
    )
    plan.topics.append(MovedTopic(name, config, queues))


def _problem(name: str) -> str | None:
    """Return why a topic of this name cannot be had, None if it can."""
    if name.startswith(LMQ_PREFIX):
        return "light queues are not served"
    if name in INTERNAL_TOPICS:
        return "an internal topic of Kafka's has this name"
    try:
        check_name(name, TOPIC_CHARACTERS_MAX, "topic")
        kafka_name(name)
    except Malformed as error:
        return str(error)
    return None


def _plan_queue(
    plan: MovePlan, store: Store, name: str, queue: int, bounds: tuple[int, int]
) -> MovedQueue:
    start, end = bounds
    messages = size = 0
    following = start
    if end > start:
        for each in store.entries(name, queue, start):
            try:
                message = store.message(name, queue, each)
            except StoreDamaged as error:
                plan.note(error)
                continue
            plan.waiting.decided(message)
            messages += 1
            size += each.entry.size
            following = each.offset + 1
    if following < end:
        plan.ends[name, queue] = end
    return MovedQueue(queue, start, following, messages, size)


def _plan_waiting(plan: MovePlan) -> None:
    """Count the messages that wait, and plan the topics that only they name."""
    wanted: dict[str, int] = {}
    for each in plan.waiting.delayed():
        plan.delayed += 1
        _want(wanted, each.message.topic, each.message.queue_id)
    for each in plan.waiting.undecided():
        plan.undecided += 1
        _want(wanted, each.message.topic, each.message.queue_id)
    present = {topic.name: at for at, topic in enumerate(plan.topics)}
    for name, partitions in sorted(wanted.items()):
        problem = _problem(name)
        if problem is not None:
            raise StoreRefused(f"messages wait for topic {name}: {problem}")
        at = present.get(name)
        topic = MovedTopic(name, TopicConfig(), ()) if at is None else plan.topics[at]
        more = range(len(topic.queues), partitions)
        queues = (*topic.queues, *(MovedQueue(queue, 0, 0, 0, 0) for queue in more))
        if at is None:
            plan.topics.append(topic._replace(queues=queues))
        else:
            plan.topics[at] = topic._replace(queues=queues)


def _want(wanted: dict[str, int], topic: bytes, queue: int) -> None:
    name = topic.decode("utf-8", "replace")
    wanted[name] = max(wanted.get(name, 0), queue + 1)


# Groups


def _plan_groups(plan: MovePlan, groups: dict[str, GroupConfig]) -> None:
    plan.groups = {name: config for name, config in groups.items() if not is_system_group(name)}


def _plan_offsets(plan: MovePlan, offsets: Iterable[StoredOffset]) -> None:
    topics = {topic.name: topic for topic in plan.topics}
    gone: Counter[str] = Counter()
    for entry in offsets:
        if is_system_group(entry.group) or is_system_topic(entry.topic) or entry.offset < 0:
            continue
        topic = topics.get(entry.topic)
        if topic is None or entry.queue >= len(topic.queues):
            gone[entry.topic] += 1
            continue
        queue = topic.queues[entry.queue]
        if entry.offset > plan.ends.get((entry.topic, entry.queue), queue.end):
            text = f"offset {entry.offset} of group {entry.group}, topic {entry.topic},"
            what = f"{text} queue {entry.queue}"
            why = f"the queue ends at {queue.end}: the group would skip what comes next"
            plan.left_out.append(LeftOut(what, 1, why, True))
            continue
        plan.raised += entry.offset < queue.start
        # Behind damaged messages the queue's next message has the offset of the first of them.
        offset = min(max(entry.offset, queue.start), queue.end)
        plan.offsets.append(entry._replace(offset=offset))
    for name, count in sorted(gone.items()):
        why = "the store has no such topic or queue"
        plan.left_out.append(LeftOut(f"offsets of groups on topic {name}", count, why, False))


def _plan_popped(plan: MovePlan, store: Store, offsets: Iterable[StoredOffset]) -> None:
    """Note messages that were popped and may not be acknowledged: POP is not served."""
    read = {
        (entry.topic, entry.queue): entry.offset for entry in offsets if entry.group == REVIVE_GROUP
    }
    count = plan.waiting.popped
    for name in store.topics():
        if name.startswith(REVIVE_TOPIC_PREFIX):
            for queue in store.queues(name):
                _, end = store.bounds(name, queue)
                count += max(end - read.get((name, queue), 0), 0)
    if count:
        why = (
            "POP is not served: what was popped and not acknowledged would be missing; let its"
            " consumers finish, and wait until the broker has revived the rest"
        )
        plan.left_out.append(LeftOut("records of popped messages", count, why, True))
