"""Three of our brokers write to the store what three Kafkas wrote, step by step."""

import gzip
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.cluster.settings.config_descriptions import Alteration, AlterOperation
from headrace.cluster.topic_creation import NewTopic
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.posix.store.sqlite_tree import Tree
from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.loop import SimLoop

TRACE = Path(__file__).with_name("zk-trace-kafka-3.9.2.jsonl.gz")
ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
OURS_ALONE = {"/config/groups", "/config/client-metrics"}
"""Roots that Kafka 4 knows and 3.9 with ZooKeeper did not."""
IN_SYNC_AGAIN = "a replica that is back joins the ISR only once it fetches"
NOT_YET = {
    "broker 1 back and in sync": IN_SYNC_AGAIN,
    "preferred election of all": IN_SYNC_AGAIN,
    "the controller, broker 2, killed": IN_SYNC_AGAIN,
    "broker 2 back": IN_SYNC_AGAIN,
    "broker 1 stopped in a controlled way": "leadership is not moved before a stop yet",
    "broker 1 back": IN_SYNC_AGAIN,
    "reassignment of u-0 begun": "throttles of replication are not kept yet",
    "reassignment of u-0 ended": "a replica that is added is in sync only once it fetches",
    "reassignment verified (throttles gone)": "throttles of replication are not kept yet",
    "u-0: broker 2 then leader 3 killed: offline": IN_SYNC_AGAIN,
    "broker 2, out of the ISR, back: still offline": IN_SYNC_AGAIN,
    "unclean election of u-0": "leader_recovery_state is not written yet",
    "broker 3 back, truncated": IN_SYNC_AGAIN,
}
"""What our brokers cannot do like Kafka's yet, and why."""
OTHERWISE_YET: dict[str, set[str]] = {}
"""Nodes of steps that are taken, which are still written otherwise than by Kafka."""


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
        node = tree.get(path)
        yield path, Written(content(node.value.decode()), node.version, node.owner != 0)
        waiting += [f"{path.rstrip('/')}/{name}" for name in tree.children(path)]


class History:
    """Our three brokers, and what each step changed."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.before: dict[str, Written] = {}
        self.steps: dict[str, Step] = {}

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


HISTORIES = {story.__name__: story for story in (settled, killed)}
SEEN_EARLIER = {"t grown to 5 partitions", "t's settings replaced", "topic gone deleted"}
"""Steps that our history takes before others: under the first controller, as the first notice."""


def play(story: Callable[[History], Coroutine[Any, Any, None]]) -> dict[str, Step]:
    loop = SimLoop(1)
    history = History(SimCluster(loop, 1, {"broker.rack": "r", "replica.lag.time.max.ms": "30000"}))

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


@pytest.mark.parametrize("story", HISTORIES)
def test_each_step_writes_what_kafkas_wrote(story: str) -> None:
    for name, ours in play(HISTORIES[story]).items():
        kafkas = early(KAFKAS[name]) if name in SEEN_EARLIER else KAFKAS[name]
        otherwise = OTHERWISE_YET.get(name, set())
        changed = {path: ours.changed[path] for path in ours.changed.keys() - OURS_ALONE}
        assert changed.keys() == kafkas.changed.keys(), name
        differing = {path for path in changed if changed[path] != kafkas.changed[path]}
        unexpected = {path: changed[path] for path in differing - otherwise}
        assert not unexpected, name
        assert differing >= otherwise, "as Kafka's now: take it from OTHERWISE_YET"
        assert ours.gone == kafkas.gone, name


def test_every_step_is_taken_or_said_to_be_missing_with_its_reason() -> None:
    taken = {name for story in HISTORIES.values() for name in play(story)}
    assert taken | NOT_YET.keys() == KAFKAS.keys()
    assert not taken & NOT_YET.keys()
