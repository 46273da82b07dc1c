"""What Kafka's tools are asked, in order: each step finds what the ones before it left.

`{broker}` is the broker's address, `{place}` a directory of the run. A step needs the APIs it
names; where they are not served it is not run and said to be left out.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.wire.kafka.api import ApiKey
from tests.compat_tools import masks
from tests.compat_tools.masks import Mask

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
SHARE = f"{TOOLS}.consumer.group.ShareGroupCommand"
PRODUCER = f"{TOOLS}.ConsoleProducer"
CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
SHARE_CONSUMER = f"{TOOLS}.consumer.ConsoleShareConsumer"
OFFSETS = f"{TOOLS}.GetOffsetShell"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"


@dataclass(frozen=True)
class Step:
    """One run of one tool."""

    name: str
    tool: str
    words: str
    stdin: str = ""
    mask: tuple[Mask, ...] = ()
    needs: tuple[ApiKey, ...] = ()
    seconds_max: float = 60.0
    prepare: Callable[[Path], None] | None = None
    address: str = "--bootstrap-server {broker}"
    known: str = ""
    """Why the outputs differ, where that is accepted."""
    heap: int = 128
    expected: tuple[str, ...] = field(default=())
    """Texts that must be in what is printed: an output that is the same and empty proves little."""


def _topics() -> list[Step]:
    def topics(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"topics {name}", TOPICS, words, mask=mask, **more)  # type: ignore[arg-type]

    create = "--create --replication-factor 1 --topic"
    return [
        topics("create", f"{create} alpha --partitions 3 --config retention.ms=1000000",
               expected=("Created topic alpha.",)),
        topics("create again", f"{create} alpha --partitions 3",
               expected=("TopicExistsException",)),
        topics("create if not there", f"{create} alpha --partitions 3 --if-not-exists"),
        topics("create by defaults", "--create --topic beta", expected=("Created topic beta.",)),
        topics("create with a bad name", f"{create} a/b --partitions 1"),
        topics("create with too many replicas",
               "--create --topic gamma --partitions 1 --replication-factor 3"),
        topics("create with a bad setting", f"{create} gamma --config retention.ms=x"),
        topics("create with an unknown setting", f"{create} gamma --config no.such=1"),
        topics("list", "--list --exclude-internal", masks.in_any_order, expected=("alpha", "beta")),
        topics("describe", "--describe --topic alpha",
               masks.in_any_order, expected=("PartitionCount: 3", "retention.ms=1000000")),
        topics("grow", "--alter --topic alpha --partitions 5"),
        topics("shrink", "--alter --topic alpha --partitions 2"),
        topics("describe grown", "--describe --topic alpha", masks.in_any_order,
               expected=("PartitionCount: 5",)),
        topics("describe what is not there", "--describe --topic nope"),
        topics("describe with troubles", "--describe --under-replicated-partitions"),
        topics("describe overrides", "--describe --topics-with-overrides --exclude-internal",
               masks.in_any_order),
        topics("delete", "--delete --topic beta"),
        topics("delete what is not there", "--delete --topic nope"),
        topics("list after deletion", "--list --exclude-internal", masks.in_any_order),
    ]  # fmt: skip


def _configs() -> list[Step]:
    def configs(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"configs {name}", CONFIGS, words, mask=mask, **more)  # type: ignore[arg-type]

    alpha = "--entity-type topics --entity-name alpha"
    return [
        configs("topic: alter",
                f"--alter {alpha} --add-config cleanup.policy=[compact,delete],segment.ms=100000"),
        configs("topic: describe", f"--describe {alpha}", masks.in_any_order,
                expected=("cleanup.policy=compact,delete",)),
        configs("topic: describe all", f"--describe {alpha} --all", masks.in_any_order),
        configs("topic: delete", f"--alter {alpha} --delete-config segment.ms,cleanup.policy"),
        configs("topic: describe after", f"--describe {alpha}", masks.in_any_order),
        configs("topic: bad value", f"--alter {alpha} --add-config segment.ms=x"),
        configs("topic: unknown key", f"--alter {alpha} --add-config no.such=1"),
        configs("topic: delete what is not set", f"--alter {alpha} --delete-config segment.ms"),
        configs("topic: not there", "--describe --entity-type topics --entity-name nope"),
        configs("brokers: alter all",
                "--alter --entity-type brokers --entity-default --add-config"
                " message.max.bytes=2000000"),
        configs("brokers: describe all", "--describe --entity-type brokers --entity-default"),
        configs("broker: alter",
                "--alter --entity-type brokers --entity-name 1 --add-config"
                " log.cleaner.delete.retention.ms=1000"),
        configs("broker: describe", "--describe --entity-type brokers --entity-name 1",
                masks.in_any_order),
        configs("broker: read-only key",
                "--alter --entity-type brokers --entity-name 1 --add-config broker.id=2"),
        configs("broker: delete",
                "--alter --entity-type brokers --entity-name 1 --delete-config"
                " log.cleaner.delete.retention.ms"),
        configs("brokers: delete all",
                "--alter --entity-type brokers --entity-default --delete-config"
                " message.max.bytes"),
        configs("group: alter",
                "--alter --entity-type groups --entity-name g1 --add-config"
                " consumer.session.timeout.ms=50000"),
        configs("group: describe", "--describe --entity-type groups --entity-name g1"),
        configs("group: describe all", "--describe --entity-type groups --entity-name g1 --all",
                masks.in_any_order),
        configs("groups: describe", "--describe --entity-type groups", masks.in_any_order),
        configs("group: unknown key",
                "--alter --entity-type groups --entity-name g1 --add-config no.such=1"),
        configs("group: delete",
                "--alter --entity-type groups --entity-name g1 --delete-config"
                " consumer.session.timeout.ms"),
    ]  # fmt: skip


def _quotas() -> list[Step]:
    needs = (ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.DESCRIBE_CLIENT_QUOTAS)

    def configs(name: str, words: str, *mask: Mask) -> Step:
        return Step(f"configs {name}", CONFIGS, words, mask=mask, needs=needs)

    client = "--entity-type clients --entity-name c1"
    return [
        configs("client: quotas",
                f"--alter {client} --add-config producer_byte_rate=1024,consumer_byte_rate=2048"),
        configs("client: describe", f"--describe {client}"),
        configs("clients: default",
                "--alter --entity-type clients --entity-default --add-config"
                " request_percentage=50"),
        configs("user and client: quotas",
                "--alter --entity-type users --entity-name u1 --entity-type clients"
                " --entity-name c1 --add-config producer_byte_rate=4096"),
        configs("clients: describe", "--describe --entity-type clients", masks.in_any_order),
        configs("users and clients: describe",
                "--describe --entity-type users --entity-type clients", masks.in_any_order),
        configs("client: unknown quota", f"--alter {client} --add-config speed=1"),
        configs("client: quotas removed",
                f"--alter {client} --delete-config producer_byte_rate,consumer_byte_rate"),
        configs("clients: default removed",
                "--alter --entity-type clients --entity-default --delete-config"
                " request_percentage"),
        configs("client: described after", f"--describe {client}"),
        configs("ip: quota",
                "--alter --entity-type ips --entity-name 10.0.0.1 --add-config"
                " connection_creation_rate=10"),
        configs("ip: describe", "--describe --entity-type ips"),
    ]  # fmt: skip


def _metrics() -> list[Step]:
    def metrics(name: str, words: str, *mask: Mask) -> Step:
        needs = (ApiKey.LIST_CONFIG_RESOURCES,)
        return Step(f"client-metrics {name}", f"{TOOLS}.ClientMetricsCommand", words, mask=mask,
                    needs=needs)  # fmt: skip

    return [
        metrics("alter", "--alter --name m1 --metrics org.apache.kafka. --interval 30000"),
        metrics("describe", "--describe --name m1", masks.in_any_order),
        metrics("list", "--list"),
        metrics("bad interval", "--alter --name m1 --metrics a. --interval 5"),
        metrics("delete", "--delete --name m1"),
        metrics("list after", "--list"),
    ]


def _console() -> list[Step]:
    keyed = "--reader-property parse.key=true --reader-property key.separator=:"
    shown = " ".join(f"--formatter-property print.{one}=true" for one in
                     ("key", "offset", "partition", "headers"))  # fmt: skip
    steps = [
        Step("topics create one", TOPICS, "--create --topic one --partitions 1"),
        Step("topics create two", TOPICS, "--create --topic two --partitions 1"),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        text = "".join(f"k{at}:{codec} {at}\n" for at in range(20))
        steps.append(
            Step(f"console-producer {codec}", PRODUCER,
                 f"--topic one {keyed} --compression-codec={codec}", stdin=text)
        )  # fmt: skip
    steps += [
        Step("console-producer acks=1", PRODUCER, "--topic two --request-required-acks 1",
             stdin="a\nb\nc\n"),
        Step("console-consumer from the beginning", CONSUMER,
             f"--topic one --from-beginning --max-messages 100 --timeout-ms 20000 {shown}",
             expected=("zstd 19", "Processed a total of 100 messages")),
        Step("console-consumer from an offset", CONSUMER,
             "--topic one --partition 0 --offset 95 --max-messages 5 --timeout-ms 20000"),
        Step("console-consumer in a group", CONSUMER,
             "--topic one --from-beginning --max-messages 60 --timeout-ms 20000 --group g1"
             " --consumer-property enable.auto.commit=true"),
        Step("console-consumer until nothing comes", CONSUMER,
             "--topic two --from-beginning --timeout-ms 5000 --group g2",
             mask=(masks.in_any_order, masks.values_only("org.apache", "ERROR", "[main] ERROR")),
             expected=("Processed a total of 3 messages",)),
    ]  # fmt: skip
    return steps


def _groups() -> list[Step]:
    def groups(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"consumer-groups {name}", GROUPS, words, mask=mask, **more)  # type: ignore[arg-type]

    return [
        groups("list", "--list", masks.in_any_order, expected=("g1", "g2")),
        groups("list with states", "--list --state", masks.in_any_order),
        groups("describe", "--describe --group g1", expected=("one",)),
        groups("describe state", "--describe --group g1 --state"),
        groups("describe members", "--describe --group g1 --members"),
        groups("describe all", "--describe --all-groups", masks.in_any_order),
        groups("describe what is not there", "--describe --group nope"),
        groups("reset, dry", "--reset-offsets --group g1 --topic one --to-earliest --dry-run"),
        groups("reset to an offset",
               "--reset-offsets --group g1 --topic one:0 --to-offset 7 --execute"),
        groups("reset by a shift",
               "--reset-offsets --group g1 --topic one --shift-by 3 --execute --export"),
        groups("reset to a time",
               "--reset-offsets --group g1 --topic one --to-datetime 2020-01-01T00:00:00.000"
               " --execute"),
        groups("describe after", "--describe --group g1"),
        groups("delete offsets", "--delete-offsets --group g1 --topic one"),
        groups("describe without offsets", "--describe --group g1"),
        groups("delete", "--delete --group g2"),
        groups("delete what is not there", "--delete --group nope"),
        groups("list after", "--list", masks.in_any_order),
        Step("groups list", f"{TOOLS}.GroupsCommand", "--list", mask=(masks.in_any_order,)),
        Step("groups list consumers", f"{TOOLS}.GroupsCommand", "--list --consumer",
             mask=(masks.in_any_order,)),
    ]  # fmt: skip


def _offsets() -> list[Step]:
    def write(place: Path) -> None:
        wanted = [{"topic": "one", "partition": 0, "offset": 10}]
        text = json.dumps({"partitions": wanted, "version": 1})
        (place / "records.json").write_text(text)

    def offsets(name: str, words: str) -> Step:
        return Step(f"get-offsets {name}", OFFSETS, words, mask=(masks.in_any_order,))

    found = [offsets(name, f"--topic-partitions one,two --time {name}")
             for name in ("latest", "earliest", "max-timestamp", "earliest-local",
                          "latest-tiered", "0")]  # fmt: skip
    return [
        *found,
        Step("delete-records", f"{TOOLS}.DeleteRecordsCommand",
             "--offset-json-file {place}/records.json", prepare=write),
        offsets("after deletion", "--topic-partitions one --time earliest"),
        Step("console-consumer after deletion", CONSUMER,
             "--topic one --from-beginning --max-messages 3 --timeout-ms 20000"),
        Step("log-dirs", f"{TOOLS}.LogDirsCommand", "--describe --topic-list one,two",
             mask=(masks.numbers,)),
        Step("log-dirs of everything", f"{TOOLS}.LogDirsCommand", "--describe --broker-list 1",
             mask=(masks.numbers, lambda found: found[:2])),
        Step("leader-election of all", f"{TOOLS}.LeaderElectionCommand",
             "--election-type preferred --all-topic-partitions"),
        Step("leader-election of one", f"{TOOLS}.LeaderElectionCommand",
             "--election-type preferred --topic one --partition 0"),
        Step("leader-election, unclean", f"{TOOLS}.LeaderElectionCommand",
             "--election-type unclean --topic nope --partition 0"),
        Step("cluster id", f"{TOOLS}.ClusterTool", "cluster-id"),
    ]  # fmt: skip


def _transactions() -> list[Step]:
    needs = (ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS)

    def transactions(name: str, words: str) -> Step:
        return Step(f"transactions {name}", TRANSACTIONS, words, needs=needs,
                    mask=(masks.in_any_order, masks.numbers))  # fmt: skip

    return [
        Step("topics create tx", TOPICS, "--create --topic tx --partitions 1", needs=needs),
        Step("producer-perf in transactions", f"{TOOLS}.ProducerPerformance",
             "--topic tx --num-records 200 --record-size 50 --throughput 1000"
             " --transactional-id t1 --transaction-duration-ms 50",
             mask=(masks.measured,), needs=needs),
        transactions("list", "list"),
        transactions("describe", "describe --transactional-id t1"),
        transactions("describe what is not there", "describe --transactional-id nope"),
        transactions("producers", "describe-producers --topic tx --partition 0"),
        transactions("hanging", "find-hanging --broker-id 1"),
        Step("console-consumer, committed only", CONSUMER,
             "--topic tx --from-beginning --max-messages 200 --timeout-ms 20000"
             " --isolation-level read_committed", needs=needs,
             mask=(lambda found: found[-1:],),
             expected=("Processed a total of 200 messages",)),
    ]  # fmt: skip


def _share() -> list[Step]:
    needs = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

    def share(name: str, words: str, *mask: Mask) -> Step:
        return Step(f"share-groups {name}", SHARE, words, mask=mask, needs=needs)

    return [
        Step("configs share group: earliest", CONFIGS,
             "--alter --entity-type groups --entity-name s1 --add-config"
             " share.auto.offset.reset=earliest", needs=needs),
        Step("console-share-consumer", SHARE_CONSUMER,
             "--topic one --group s1 --max-messages 20 --timeout-ms 30000", needs=needs),
        share("list", "--list", masks.in_any_order),
        share("describe", "--describe --group s1"),
        share("describe state", "--describe --group s1 --state"),
        share("describe members", "--describe --group s1 --members"),
        share("reset, dry", "--reset-offsets --group s1 --topic one --to-earliest --dry-run"),
        share("reset", "--reset-offsets --group s1 --topic one --to-latest --execute"),
        share("delete offsets", "--delete-offsets --group s1 --topic one"),
        share("delete", "--delete --group s1"),
        share("list after", "--list"),
    ]  # fmt: skip


def _measuring() -> list[Step]:
    return [
        Step("topics create perf", TOPICS, "--create --topic perf --partitions 1"),
        Step("producer-perf", f"{TOOLS}.ProducerPerformance",
             "--topic perf --num-records 5000 --record-size 100 --throughput -1",
             mask=(masks.measured,), expected=("5000 records sent",)),
        Step("consumer-perf", f"{TOOLS}.ConsumerPerformance",
             "--topic perf --num-records 5000 --timeout 20000", mask=(masks.consumed,),
             expected=("5000",)),
        Step("topics create verified", TOPICS, "--create --topic verified --partitions 1"),
        Step("verifiable-producer", f"{TOOLS}.VerifiableProducer",
             "--topic verified --max-messages 50", mask=(masks.events,),
             expected=("producer_send_success 50",)),
        Step("verifiable-consumer", f"{TOOLS}.VerifiableConsumer",
             "--topic verified --max-messages 50 --group-id v1 --reset-policy earliest",
             mask=(masks.events,), expected=("records_consumed 50",)),
    ]  # fmt: skip


SECTIONS: dict[str, Callable[[], list[Step]]] = {
    "topics": _topics,
    "configs": _configs,
    "quotas": _quotas,
    "metrics": _metrics,
    "console": _console,
    "groups": _groups,
    "offsets": _offsets,
    "transactions": _transactions,
    "share": _share,
    "measuring": _measuring,
}
"""All steps, in the order in which they run."""
BEFORE = {
    "configs": ("topics",),
    "groups": ("console",),
    "offsets": ("console",),
    "share": ("console",),
}
"""What must have run before a section."""
