"""What Kafka's tools are asked of a cluster of three brokers, in order."""

import json
import re
import subprocess
import time
from collections.abc import Callable

from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.clusters import Cluster, ClusterSide
from tests.outside.kafka_tools.masks import Mask
from tests.outside.kafka_tools.step import TOOLS, TOPICS, Side, Step

ELECTION = f"{TOOLS}.LeaderElectionCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
VERIFICATION = f"{TOOLS}.ReplicaVerificationTool"
SHELL = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
RECORDS = 300
VERIFICATION_SECONDS_MAX = 60.0
_ISR = re.compile(r"\b(Isr: )([\d,]+)")
_VERSIONS = re.compile(r" (Configs: .*|Elr:.*)$")
"""What Kafka 3.9 does not tell, or counts as a setting of its own."""


def cluster_of(side: Side) -> Cluster:
    assert isinstance(side, ClusterSide)
    return side.cluster


def described(found: list[str]) -> list[str]:
    """Partitions with the ISR as a set: in which order a broker writes it nobody promises."""

    def in_order(match: re.Match[str]) -> str:
        return match[1] + ",".join(sorted(match[2].split(",")))

    return [_ISR.sub(in_order, _VERSIONS.sub("", line)) for line in found]


def on(act: Callable[[Cluster], None]) -> Callable[[Side], None]:
    """The step's preparation, done to the side's cluster."""
    return lambda side: act(cluster_of(side))


def topics() -> list[Step]:
    def topics(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"topics {name}", TOPICS, words, mask=mask, **more)  # type: ignore[arg-type]

    return [
        topics("create with a given assignment",
               "--create --topic alpha --replica-assignment 0:1:2,1:2:0,2:0:1"),
        topics("create with replication factor 3",
               "--create --topic beta --partitions 6 --replication-factor 3"),
        topics("create with more replicas than brokers",
               "--create --topic gamma --partitions 1 --replication-factor 4",
               expected=("InvalidReplicationFactorException",)),
        topics("create with a replica twice",
               "--create --topic gamma --replica-assignment 0:0"),
        topics("create on two of the three", "--create --topic delta --replica-assignment 0:2"),
        topics("describe", "--describe --topic alpha", described, prepare=on(_well),
               expected=("Replicas: 1,2,0", "Isr: 0,1,2")),
        topics("describe under-replicated, none", "--describe --under-replicated-partitions"),
        topics("describe unavailable, none", "--describe --unavailable-partitions"),
        topics("describe at min.insync.replicas, none", "--describe --at-min-isr-partitions"),
    ]  # fmt: skip


def _well(cluster: Cluster) -> None:
    cluster.until_in_sync("alpha")
    cluster.write("alpha", RECORDS)


def failing() -> list[Step]:
    def topics(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"topics {name}", TOPICS, words, mask=mask, **more)  # type: ignore[arg-type]

    election = "--election-type preferred"
    return [
        topics("describe under-replicated, a broker down",
               "--describe --topic alpha --under-replicated-partitions", described,
               prepare=on(_without_2), expected=("Leader: 0 Replicas: 2,0,1 Isr: 0,1",)),
        topics("describe unavailable, a broker down", "--describe --unavailable-partitions"),
        Step("leader-election preferred, who is down cannot lead", ELECTION,
             f"{election} --topic alpha --partition 2"),
        topics("describe with the broker back", "--describe --topic alpha", described,
               prepare=on(_with_2), expected=("Leader: 0 Replicas: 2,0,1 Isr: 0,1,2",)),
        Step("leader-election preferred, one partition", ELECTION,
             f"{election} --topic alpha --partition 2",
             expected=("Successfully completed leader election",)),
        topics("describe with the preferred leader", "--describe --topic alpha", described,
               expected=("Leader: 2 Replicas: 2,0,1",)),
        Step("leader-election preferred, nothing to do", ELECTION,
             f"{election} --topic alpha --partition 2"),
        Step("leader-election of a partition that is not there", ELECTION,
             f"{election} --topic alpha --partition 9"),
        Step("leader-election unclean, of a partition that is led", ELECTION,
             "--election-type unclean --topic alpha --partition 0"),
        Step("replica-verification", check=_replicas_are_equal),
    ]  # fmt: skip


def _without_2(cluster: Cluster) -> None:
    cluster.kill(2)
    cluster.until_isr("alpha", 0, 1)


def _with_2(cluster: Cluster) -> None:
    cluster.start_again(2)
    cluster.until_in_sync("alpha")
    cluster.until_in_sync("beta")


def _replicas_are_equal(side: Side) -> list[str]:
    """Kafka's tool compares the checksums of all replicas' batches; it runs until it is ended."""
    words = "--broker-list {broker} --topics-include alpha --report-interval-ms 500 --time -2"
    process = subprocess.Popen(
        side.command(VERIFICATION, words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, cwd=side.place,
    )  # fmt: skip
    assert process.stdout is not None
    said: list[str] = []
    deadline = time.monotonic() + VERIFICATION_SECONDS_MAX
    try:
        for line in process.stdout:
            said.append(line.strip())
            if "max lag is 0 " in line:
                return []
            if time.monotonic() > deadline:
                break
    finally:
        process.kill()
        process.wait()
    return [f"{side.broker.name}: the replicas are not found to be equal", *said[-10:]]


# --- moves --------------------------------------------------------------------------------------


def moves() -> list[Step]:
    def reassign(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"reassign-partitions {name}", REASSIGN, words, mask=mask, **more)  # type: ignore[arg-type]

    def files(side: Side) -> None:
        _write(side, "topics", {"topics": [{"topic": "alpha"}], "version": 1})
        _write_moves(side, "move", {0: [1, 2], 1: [2, 0, 1]})
        _write_moves(side, "stuck", {0: [0, 2, 1]}, topic="delta")
        _write_moves(side, "nowhere", {0: [1, 9]})
        _write_moves(side, "back", {0: [0, 1, 2], 1: [1, 2, 0]})

    done = masks.in_any_order
    return [
        reassign("generate", "--generate --topics-to-move-json-file {place}/topics.json"
                 " --broker-list 0,1,2", _without_proposal, prepare=files,
                 expected=("Current partition replica assignment",)),
        reassign("execute", "--execute --reassignment-json-file {place}/move.json", done,
                 expected=("Successfully started partition reassignments",)),
        reassign("verify", "--verify --reassignment-json-file {place}/move.json", done,
                 prepare=on(_moved), expected=("is completed",)),
        reassign("list, none", "--list"),
        Step("topics describe after the move", TOPICS, "--describe --topic alpha",
             mask=(described,), expected=("Replicas: 1,2 Isr: 1,2",)),
        reassign("to a broker that is not there",
                 "--execute --reassignment-json-file {place}/nowhere.json", done),
        reassign("execute what is stuck",
                 "--execute --reassignment-json-file {place}/stuck.json", done,
                 prepare=on(_without_1_unnoticed)),
        reassign("list what is stuck", "--list", done, expected=("delta-0",)),
        reassign("cancel",
                 "--cancel --preserve-throttles --reassignment-json-file {place}/stuck.json", done,
                 expected=("Successfully cancelled",)),
        reassign("list after the cancellation", "--list"),
        reassign("execute back", "--execute --reassignment-json-file {place}/back.json", done,
                 prepare=on(_with_1)),
        reassign("verify back", "--verify --reassignment-json-file {place}/back.json", done,
                 prepare=on(_moved_back), expected=("is completed",)),
        Step("topics describe after all moves", TOPICS, "--describe --topic alpha",
             mask=(described,), expected=("Replicas: 0,1,2 Isr: 0,1,2",)),
        reassign("execute with a throttle",
                 "--execute --throttle 10000000 --reassignment-json-file {place}/back.json", done,
                 expected=("The inter-broker throttle limit was set to 10000000 B/s",)),
        reassign("verify, the throttle gone",
                 "--verify --reassignment-json-file {place}/back.json", done,
                 prepare=on(_moved_back), expected=("Clearing broker-level throttles",)),
    ]  # fmt: skip


def _write(side: Side, name: str, content: object) -> None:
    (side.place / f"{name}.json").write_text(json.dumps(content))


def _write_moves(
    side: Side, name: str, replicas: dict[int, list[int]], topic: str = "alpha"
) -> None:
    partitions = [
        {"topic": topic, "partition": index, "replicas": found, "log_dirs": ["any"] * len(found)}
        for index, found in replicas.items()
    ]
    _write(side, name, {"version": 1, "partitions": partitions})


def _without_proposal(found: list[str]) -> list[str]:
    """What is proposed begins with a broker drawn at random."""
    shown = []
    for line in found:
        shown.append(line)
        if line.startswith("Proposed partition reassignment"):
            break
    return shown


def _moved(cluster: Cluster) -> None:
    cluster.until(lambda: cluster.in_sync("alpha")[0][:2] == ([1, 2], {1, 2}), "alpha-0 moved")


def _moved_back(cluster: Cluster) -> None:
    cluster.until(
        lambda: cluster.in_sync("alpha")[0][:2] == ([0, 1, 2], {0, 1, 2}), "alpha-0 moved back"
    )


def _without_1_unnoticed(cluster: Cluster) -> None:
    """Until its session ends it may be moved to, and copies nothing."""
    cluster.kill(1)


def _with_1(cluster: Cluster) -> None:
    cluster.start_again(1)
    cluster.until_in_sync("alpha")


# --- ZooKeeper ----------------------------------------------------------------------------------


def znodes() -> list[Step]:
    def shell(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"zookeeper-shell {name}", SHELL, f"-server {{zookeeper}} {words}",
                    mask=(_answer, *mask), address="", **more)  # type: ignore[arg-type]  # fmt: skip

    return [
        shell("ls /", "ls /", _own_hidden),
        shell("ls /brokers/ids", "ls /brokers/ids", expected=("[0, 1, 2]",)),
        shell("get a topic", "get /brokers/topics/alpha", expected=('"partitions"',)),
        shell("get a partition's state", "get /brokers/topics/alpha/partitions/1/state",
              _epochs_hidden, expected=('"leader":2',)),
        shell("ls a topic's partitions", "ls -R /brokers/topics/alpha", masks.in_any_order),
        shell("get a topic's settings", "get /config/topics/alpha"),
        shell("ls what tools write", "ls /admin", masks.words_in_any_order),
        Step("topics create on a broker that is not there", TOPICS,
             "--create --topic gamma --replica-assignment 0:7",
             known="Kafka 3.9 makes a partition on a broker that nobody knows, and Kafka 4.3, as"
             " we do, refuses it"),
    ]  # fmt: skip


def _answer(found: list[str]) -> list[str]:
    """Without what the shell says of its connection."""
    hidden = ("Connecting to", "WATCHER::", "WatchedEvent", "20", "Welcome", "JLine")
    return [line for line in found if line and not line.startswith(hidden)]


def _own_hidden(found: list[str]) -> list[str]:
    """Without nodes of Headrace's own: Kafka's brokers and tools read none of them."""
    return [re.sub(r", headrace-[\w-]+", "", line) for line in found]


def _epochs_hidden(found: list[str]) -> list[str]:
    """How often a leader or a controller was elected is a matter of time."""
    return [
        re.sub(r'"isr":\[([\d,]+)\]',
               lambda match: f'"isr":[{",".join(sorted(match[1].split(",")))}]',
               re.sub(r'"(controller_epoch|leader_epoch)":\d+', r'"\1":N', line))
        for line in found
    ]  # fmt: skip


SECTIONS: dict[str, Callable[[], list[Step]]] = {
    "topics": topics,
    "failing": failing,
    "moves": moves,
    "znodes": znodes,
}
"""All steps, in the order in which they run; each section needs those before it."""
