"""Three of our brokers write to the store what three Kafkas wrote, step by step."""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.cluster.decisions.events import ElectionType
from headrace.cluster.store.znodes import TOPICS, state_path
from headrace.cluster.topics.creation import NewTopic
from headrace.config.descriptions import Alteration, AlterOperation
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.posix.store.sqlite_tree import Tree
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

TRACE = Path(__file__).with_name("zk-trace-kafka-3.9.2.jsonl.gz")
ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
SEEDS = range(1, 41)
"""Who of two brokers becomes the controller is who is faster: a seed of these has Kafka's order."""
OURS_ALONE = {"/config/groups", "/config/client-metrics"}
"""Roots that Kafka 4 knows and 3.9 with ZooKeeper did not."""
OTHERWISE_YET: dict[str, set[str]] = {}
"""Nodes of steps that are taken, which are still written otherwise than by Kafka."""


WRITTEN_TWICE = {
    "the controller, broker 2, killed": ("t/partitions/1", "u/partitions/0"),
    "u-0: broker 2 then leader 3 killed: offline": ("t/partitions/0", "t/partitions/2"),
}
"""Partitions that a controller of Kafka's writes twice when it begins and their leader has died:
first without a leader, then with another. Ours writes the second."""


TOPIC_WRITTEN_TWICE = {"reassignment of u-0 begun": "u"}
"""Topics whose partition is moved though all that are to stay are in sync: Kafka writes that the
move has begun, and then that it has ended. Ours is over in one write."""


ASKED_ANEW = {"broker 1 back": ("t/partitions/0", "t/partitions/1", "t/partitions/2")}
"""Partitions whose leader may have asked a controller that stopped for another ISR, and was not
answered: it has the ISR that holds written anew, to outdate the question (ADR 24)."""


STAMPS = "/headrace-directories"
"""A node of ours, which Kafka does not have and does not read (ADR 64)."""


class Written(NamedTuple):
    """A node, without what no two clusters have alike."""

    content: object
    version: int
    ephemeral: bool


class Step(NamedTuple):
    """What one step changed, and the paths that went."""

    changed: dict[str, Written]
    gone: set[str]


def read_trace() -> dict[str, Step]:
    with gzip.open(TRACE, "rt") as lines:
        steps = [json.loads(line) for line in lines]
    return {
        step["step"]: Step(
            {
                path: Written(content(node["data"]), node["version"], node["ephemeral"])
                for path, node in step["changed"].items()
            },
            set(step["gone"]),
        )
        for step in steps
    }


OF_A_CLUSTER = {"timestamp", "topic_id", "id", "endpoints", "host", "port"}
"""Fields that differ from cluster to cluster."""


def content(data: str) -> object:
    """Names and values of a node's fields in their order; names only, of what differs."""

    def pairs(read: list[tuple[str, object]]) -> object:
        return [(name, None if name in OF_A_CLUSTER else value) for name, value in read]

    try:
        return json.loads(data, object_pairs_hook=pairs)
    except ValueError:
        return data


KAFKAS = read_trace()


def nodes(tree: Tree) -> Iterator[tuple[str, Written]]:
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path == STAMPS:
            continue
        node = tree.get(path)
        yield path, Written(content(node.value.decode()), node.version, node.owner != 0)
        waiting += [f"{path.rstrip('/')}/{name}" for name in tree.children(path)]


class History:
    """Our three brokers, and what each step changed."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.before: dict[str, Written] = {}
        self.steps: dict[str, Step] = {}

    def skip(self) -> None:
        """Let what has changed since the step before be compared with nothing."""
        self.before = dict(nodes(self.cluster.ensemble.tree))

    async def until(self, topic: str, isrs: dict[int, list[int]]) -> None:
        """Wait until the ISRs are written."""
        for _ in range(3000):
            found = [
                dict(json.loads(self.cluster.ensemble.tree.get(state_path(topic, index)).value))
                for index in isrs
            ]
            if [state["isr"] for state in found] == list(isrs.values()):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{topic}: {found}")

    def did(self, step: str) -> None:
        """Note what has changed since the step before."""
        now = dict(nodes(self.cluster.ensemble.tree))
        changed = {path: node for path, node in now.items() if self.before.get(path) != node}
        self.steps[step] = Step(changed, self.before.keys() - now.keys())
        self.before = now

    async def begin(self) -> None:
        for number in (2, 1, 3):  # the controller is the one that was Kafka's
            await self.cluster.start(number)
        self.did("three brokers started")
        controller = self.cluster.controller()
        created = await controller.create_topics([
            NewTopic("t", assignment={0: (ONE, THREE, TWO), 1: (TWO, ONE, THREE),
                                      2: (THREE, TWO, ONE)}, config={"retention.ms": "86400000"}),
            NewTopic("u", assignment={0: (TWO, THREE)}),
            NewTopic("gone", assignment={0: (ONE,)}),
        ])  # fmt: skip
        assert not [topic for topic in created if isinstance(topic, ApiError)]
        self.did("topics t (3 x 3), u (1 x 2), gone (1 x 1) created")
        await self.cluster.brokers[2].controller.next_producer_id()
        self.did("300 records by an idempotent producer (producer id block)")


async def settled(history: History) -> None:
    """What an operator asks for."""
    await history.begin()
    controller = history.cluster.controller()
    await controller.create_partitions("t", 5, [(ONE, THREE, TWO), (TWO, ONE, THREE)])
    history.did("t grown to 5 partitions")
    await controller.settings.alter_topic(
        "t", [Alteration("retention.ms", AlterOperation.SET, "1000000")]
    )
    history.did("t's settings replaced")
    await controller.delete_topics(["gone"])
    history.did("topic gone deleted")


async def killed(history: History) -> None:
    """A broker dies."""
    await history.begin()
    await history.cluster.cut_power(1)
    history.did("broker 1, not the controller, killed: session expired")


async def brokers_come_and_go(history: History) -> None:
    """Brokers die, stop and come back; one topic loses all that was in sync."""
    cluster = history.cluster
    await killed(history)
    await cluster.start(1)
    await history.until("t", {0: [3, 2, 1], 1: [2, 3, 1], 2: [3, 2, 1]})
    history.did("broker 1 back and in sync")
    for topic in ("t", "u", "gone"):
        await cluster.elect(topic)
    history.did("preferred election of all")
    await cluster.cut_power(2)
    await history.until("t", {0: [3, 1], 1: [3, 1], 2: [3, 1]})
    history.did("the controller, broker 2, killed")
    await cluster.start(2)
    await history.until("t", {0: [3, 1, 2], 1: [3, 1, 2], 2: [3, 1, 2]})
    await history.until("u", {0: [3, 2]})
    history.did("broker 2 back")
    await cluster.stop(1)
    await asyncio.sleep(1.0)
    history.did("broker 1 stopped in a controlled way")
    await cluster.start(1)
    await history.until("t", {0: [3, 2, 1], 1: [3, 2, 1], 2: [3, 2, 1]})
    history.did("broker 1 back")
    controller = cluster.controller()
    await reassigned_with_a_throttle(history)
    await controller.create_partitions("t", 5, [(ONE, THREE, TWO), (TWO, ONE, THREE)])
    await asyncio.sleep(1.0)
    history.skip()
    await cluster.cut_power(2)
    await cluster.cut_power(3)
    await history.until("t", {key: [1] for key in range(5)})
    history.did("u-0: broker 2 then leader 3 killed: offline")
    await cluster.start(2)
    await history.until("t", {key: [1, 2] for key in range(5)})
    history.did("broker 2, out of the ISR, back: still offline")
    await cluster.controller().replicas.elect(ElectionType.UNCLEAN, [TopicPartition("u", 0)])
    history.did("unclean election of u-0")
    await cluster.start(3)
    await history.until("t", {key: [1, 2, 3] for key in range(5)})
    await history.until("u", {0: [2, 3]})
    history.did("broker 3 back, truncated")


RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
OF_DIRECTORIES = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def reassigned_with_a_throttle(history: History) -> None:
    """What `kafka-reassign-partitions --execute --throttle` and `--verify` ask for."""
    controller, brokers = history.cluster.controller(), history.cluster.brokers
    named = zip(REPLICAS, ("0:2,0:3", ""), strict=True)
    await controller.settings.alter_topic(
        "u", [Alteration(key, AlterOperation.SET, text) for key, text in named]
    )
    for number in (3, 2):
        rates = [Alteration(key, AlterOperation.SET, "1000000") for key in RATES]
        await brokers[number].controller.settings.alter_broker(str(number), rates)
    await controller.replicas.reassign({TopicPartition("u", 0): (THREE, TWO)})
    await asyncio.sleep(1.0)
    history.did("reassignment of u-0 begun")
    history.did("reassignment of u-0 ended")
    for number in (3, 2, 1):
        none = [Alteration(key, AlterOperation.DELETE, None) for key in (*RATES, OF_DIRECTORIES)]
        await brokers[number].controller.settings.alter_broker(str(number), none)
    await controller.settings.alter_topic(
        "u", [Alteration(key, AlterOperation.DELETE, None) for key in REPLICAS]
    )
    await asyncio.sleep(1.0)
    history.did("reassignment verified (throttles gone)")


HISTORIES = {story.__name__: story for story in (settled, brokers_come_and_go)}
SEEN_EARLIER = {"t grown to 5 partitions", "t's settings replaced", "topic gone deleted"}
"""Steps that our history takes before others: under the first controller, as the first notice."""


def controllers(steps: dict[str, Step]) -> dict[str, object]:
    """Who became the controller, by the step in which it did."""
    return {
        name: step.changed["/controller"].content
        for name, step in steps.items()
        if "/controller" in step.changed
    }


def play(story: Callable[[History], Coroutine[Any, Any, None]]) -> dict[str, Step]:
    """What each step of a story changed, where the controllers were those that Kafka's were."""
    for seed in SEEDS:
        steps = play_by(seed, story)
        if controllers(steps) == controllers({name: KAFKAS[name] for name in steps}):
            return steps
    raise AssertionError(f"no seed has Kafka's controllers; the last had {controllers(steps)}")


def play_by(seed: int, story: Callable[[History], Coroutine[Any, Any, None]]) -> dict[str, Step]:
    loop = SimLoop(seed)
    history = History(
        SimCluster(loop, seed, {"broker.rack": "r", "replica.lag.time.max.ms": "30000"})
    )

    async def whole() -> None:
        await story(history)
        for number in sorted(history.cluster.brokers):
            await history.cluster.stop(number)

    loop.play(whole())
    return history.steps


def early(step: Step) -> Step:
    """A step as if it had been taken under the first controller, with the first notice."""
    changed = {}
    for path, node in step.changed.items():
        written = node.content
        if isinstance(written, list):
            written = [
                (name, 1 if name == "controller_epoch" else value) for name, value in written
            ]
        is_notice = path.startswith("/config/changes/")
        at = "/config/changes/config_change_0000000000" if is_notice else path
        changed[at] = node._replace(content=written)
    return step._replace(changed=changed)


def as_often(name: str, step: Step, ours: Step, twice: Counter[str], anew: Counter[str]) -> Step:
    """A Kafka's step with as many writes as ours, in it and before; counts what differs."""
    for path in (f"{TOPICS}/{partition}/state" for partition in ASKED_ANEW.get(name, ())):
        expected = step.changed[path].version - twice[path] + anew[path]
        anew[path] += ours.changed[path].version == expected + 1
    twice.update(f"{TOPICS}/{partition}/state" for partition in WRITTEN_TWICE.get(name, ()))
    if name in TOPIC_WRITTEN_TWICE:
        twice.update([f"{TOPICS}/{TOPIC_WRITTEN_TWICE[name]}"])
    changed = {}
    for path, node in step.changed.items():
        written = node.content
        if isinstance(written, list):
            written = [
                (field, value - twice[path] if field == "leader_epoch" else value)
                for field, value in written
            ]
        changed[path] = node._replace(
            content=written, version=node.version - twice[path] + anew[path]
        )
    return step._replace(changed=changed)


@pytest.mark.parametrize("story", HISTORIES)
def test_each_step_writes_what_kafkas_wrote(story: str) -> None:
    twice: Counter[str] = Counter()
    anew: Counter[str] = Counter()
    for name, ours in play(HISTORIES[story]).items():
        kafkas = early(KAFKAS[name]) if name in SEEN_EARLIER else KAFKAS[name]
        kafkas = as_often(name, kafkas, ours, twice, anew)
        otherwise = OTHERWISE_YET.get(name, set())
        changed = {path: ours.changed[path] for path in ours.changed.keys() - OURS_ALONE}
        assert changed.keys() == kafkas.changed.keys(), name
        differing = {path for path in changed if changed[path] != kafkas.changed[path]}
        unexpected = {path: changed[path] for path in differing - otherwise}
        assert not unexpected, name
        assert differing >= otherwise, "as Kafka's now: take it from OTHERWISE_YET"
        assert ours.gone == kafkas.gone, name


def test_every_step_is_taken() -> None:
    assert {name for story in HISTORIES.values() for name in play(story)} == KAFKAS.keys()
