"""The cluster as a whole, what is not served here, and what a kill -9 leaves."""

import time
from collections.abc import Callable

from confluent_kafka import Producer

from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.step import (
    CONFIGS,
    CONSUMER,
    GROUPS,
    OFFSETS,
    SHARE,
    TOOLS,
    TOPICS,
    TRANSACTIONS,
    Side,
    Step,
    restart,
)

Act = Callable[[Side], None]
_UNSUPPORTED = ("UnsupportedVersionException",)
_ONE_NODE = "one node: replicas have nowhere to move"


def cluster() -> list[Step]:
    """Tools that look at the cluster."""
    return [
        Step("cluster id", f"{TOOLS}.ClusterTool", "cluster-id"),
        Step("cluster endpoints", f"{TOOLS}.ClusterTool", "list-endpoints"),
        Step("cluster endpoints with fenced ones", f"{TOOLS}.ClusterTool",
             "list-endpoints --include-fenced-brokers"),
        Step("streams-groups list", f"{TOOLS}.streams.StreamsGroupCommand", "--list"),
        Step("streams-application-reset", f"{TOOLS}.StreamsResetter",
             "--application-id app --input-topics one --force"),
        Step("reassign-partitions, a proposal", f"{TOOLS}.reassign.ReassignPartitionsCommand",
             "--generate --topics-to-move-json-file {place}/move.json --broker-list 1",
             prepare=_write_moves),
        Step("reassign-partitions list", f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"),
    ]  # fmt: skip


def without_security() -> list[Step]:
    """Tools that ask for ACLs, tokens and users, of brokers that have no security."""
    return [
        Step("acls list", f"{TOOLS}.AclCommand", "--list",
             expected=("SecurityDisabledException",)),
        Step("delegation-tokens describe", f"{TOOLS}.DelegationTokenCommand",
             "--describe --command-config {place}/empty.properties", prepare=_write_nothing,
             expected=("UnsupportedByAuthenticationException",)),
        Step("configs users describe", CONFIGS, "--describe --entity-type users"),
    ]  # fmt: skip


def _write_moves(side: Side) -> None:
    (side.place / "move.json").write_text('{"topics": [{"topic": "one"}], "version": 1}')


def _write_nothing(side: Side) -> None:
    (side.place / "empty.properties").write_text("")


def refused() -> list[Step]:
    """What is not served: the tool must say so, whatever Kafka answers."""

    def refused(name: str, tool: str, words: str, known: str, *expected: str) -> Step:
        address = "--bootstrap-server {broker}"
        return Step(f"{name} (not served)", tool, f"{address} {words}", known=known, address="",
                    prepare=_write_nothing, expected=expected or _UNSUPPORTED)  # fmt: skip

    quorum = "metadata is kept in a store, not in a quorum of brokers"
    return [
        refused("metadata-quorum", f"{TOOLS}.MetadataQuorumCommand", "describe --status", quorum),
        refused("features", f"{TOOLS}.FeatureCommand", "describe", quorum, "transaction.version"),
        Step("cluster unregister (not served)", f"{TOOLS}.ClusterTool", "unregister --id 7",
             known=_ONE_NODE, expected=("not support",)),
        refused("streams-groups describe", f"{TOOLS}.streams.StreamsGroupCommand",
                "--describe --group nope", "streams groups come with later work"),
        refused("broker-api-versions", f"{TOOLS}.BrokerApiVersionsCommand", "",
                "what is served here is in docs/protocol.md", "Produce(0)"),
    ]  # fmt: skip


def restarted() -> list[Step]:
    """A kill -9 between and during the tools' runs: nothing that was answered is gone."""
    return [
        Step("both brokers are killed and started", prepare=restart),
        Step("topics describe, after the kill", TOPICS, "--describe --exclude-internal",
             mask=(masks.in_any_order,), expected=("one",)),
        Step("configs of topics, after the kill", CONFIGS, "--describe --entity-type topics",
             mask=(masks.in_any_order,)),
        Step("configs of groups, after the kill", CONFIGS, "--describe --entity-type groups",
             mask=(masks.in_any_order,)),
        Step("quotas, after the kill", CONFIGS, "--describe --entity-type ips"),
        Step("consumer-groups, after the kill", GROUPS, "--describe --all-groups",
             mask=(masks.in_any_order,)),
        Step("offsets, after the kill", OFFSETS, "--topic-partitions one,two --time latest",
             mask=(masks.in_any_order,), expected=("one:0:",)),
        Step("transactions list, after the kill", TRANSACTIONS, "list",
             mask=(masks.columns("ProducerId"), masks.in_any_order)),
        Step("share-groups list, after the kill", SHARE, "--list --state",
             mask=(masks.in_any_order,)),
        Step("topics create lasting", TOPICS, "--create --topic lasting --partitions 1"),
        Step("producer-perf through a kill", f"{TOOLS}.ProducerPerformance",
             "--topic lasting --num-records 1000 --record-size 50 --throughput 100",
             meanwhile=_after(4, restart), mask=(masks.measured,), seconds_max=120,
             expected=("1000 records sent",)),
        Step("offsets after that", OFFSETS, "--topic-partitions lasting --time latest",
             expected=("lasting:0:1000",)),
        Step("console-consumer through a kill", CONSUMER,
             "--topic lasting --from-beginning --max-messages 1010 --timeout-ms 60000 --group last",
             meanwhile=_after(6, restart, _ten_more), seconds_max=120,
             mask=(masks.in_any_order, masks.without_warnings),
             expected=("Processed a total of 1010 messages",)),
        Step("consumer-groups after that", GROUPS, "--describe --group last", expected=("1010",)),
    ]  # fmt: skip


def _after(seconds: float, *acts: Act) -> Act:
    def done(side: Side) -> None:
        time.sleep(seconds)
        for act in acts:
            act(side)

    return done


def _ten_more(side: Side) -> None:
    producer = Producer({"bootstrap.servers": side.broker.bootstrap})
    for at in range(10):
        producer.produce("lasting", f"more {at}".encode(), partition=0)
    if producer.flush(30):
        raise AssertionError("the broker does not answer after its restart")
