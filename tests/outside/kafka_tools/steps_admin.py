"""Topics, settings, quotas and metrics as Kafka's tools show and change them."""

from headrace.wire.kafka.api import ApiKey
from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.masks import Mask
from tests.outside.kafka_tools.step import CONFIGS, TOOLS, TOPICS, Step


def topics() -> list[Step]:
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
        topics("create with an assignment", "--create --topic delta --replica-assignment 1,1,1"),
        topics("create on a broker that is not there",
               "--create --topic epsilon --replica-assignment 9"),
        topics("create with a colliding name", "--create --topic al_pha.x --partitions 1"),
        topics("create with the name it collides with", "--create --topic al.pha_x --partitions 1"),
        topics("create with no partitions", f"{create} gamma --partitions 0"),
        topics("list by an expression", "--list --topic al.*", masks.in_any_order),
        topics("describe by an expression", "--describe --topic (alpha|beta)", masks.in_any_order),
        topics("describe what cannot be had", "--describe --unavailable-partitions"),
        topics("describe under the least", "--describe --under-min-isr-partitions"),
        topics("describe at the least", "--describe --at-min-isr-partitions --topic alpha"),
        topics("grow", "--alter --topic alpha --partitions 5"),
        topics("shrink", "--alter --topic alpha --partitions 2"),
        topics("grow what is not there", "--alter --topic nope --partitions 2"),
        topics("grow if it is there", "--alter --topic nope --partitions 2 --if-exists"),
        topics("describe grown", "--describe --topic alpha", masks.in_any_order,
               expected=("PartitionCount: 5",)),
        topics("describe what is not there", "--describe --topic nope"),
        topics("describe with troubles", "--describe --under-replicated-partitions"),
        topics("describe overrides", "--describe --topics-with-overrides --exclude-internal",
               masks.in_any_order),
        topics("delete", "--delete --topic beta"),
        topics("delete what is not there", "--delete --topic nope"),
        topics("delete if it is there", "--delete --topic nope --if-exists"),
        topics("delete by an expression", "--delete --topic (delta|al_pha.x)"),
        topics("list after deletion", "--list --exclude-internal", masks.in_any_order),
    ]  # fmt: skip


def configs() -> list[Step]:
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
        configs("topic: append", f"--alter {alpha} --add-config cleanup.policy=[compact]"),
        configs("topics: describe", "--describe --entity-type topics", masks.in_any_order),
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
        configs("broker: bad value",
                "--alter --entity-type brokers --entity-name 1 --add-config"
                " log.cleaner.delete.retention.ms=x"),
        configs("broker: unknown key",
                "--alter --entity-type brokers --entity-name 1 --add-config no.such=1",
                known="Kafka keeps unknown keys for its plugins; here there are none, and a typing"
                " error is refused", expected=("no such broker key",)),
        configs("broker: not there", "--describe --entity-type brokers --entity-name 7"),
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


def quotas() -> list[Step]:
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
        configs("user: quota",
                "--alter --entity-type users --entity-name u1 --add-config"
                " consumer_byte_rate=512"),
        configs("user: bad quota",
                "--alter --entity-type users --entity-name u1 --add-config"
                " consumer_byte_rate=x"),
        configs("ip: bad address",
                "--alter --entity-type ips --entity-name nowhere.invalid --add-config"
                " connection_creation_rate=10"),
        configs("ip: describe", "--describe --entity-type ips"),
    ]  # fmt: skip


def metrics() -> list[Step]:
    def metrics(name: str, words: str, *mask: Mask) -> Step:
        needs = (ApiKey.LIST_CONFIG_RESOURCES,)
        return Step(f"client-metrics {name}", f"{TOOLS}.ClientMetricsCommand", words, mask=mask,
                    needs=needs)  # fmt: skip

    return [
        metrics("alter", "--alter --name m1 --metrics org.apache.kafka. --interval 30000"),
        metrics("describe", "--describe --name m1", masks.in_any_order),
        metrics("list", "--list"),
        Step("configs client-metrics: describe", CONFIGS,
             "--describe --entity-type client-metrics --entity-name m1",
             mask=(masks.in_any_order,), needs=(ApiKey.LIST_CONFIG_RESOURCES,)),
        metrics("match", "--alter --name m2 --match client_software_name=.*"),
        metrics("bad match", "--alter --name m2 --match no.such=x"),
        metrics("describe all", "--describe", masks.in_any_order),
        metrics("bad interval", "--alter --name m1 --metrics a. --interval 5"),
        metrics("delete", "--delete --name m1"),
        metrics("delete the other", "--delete --name m2"),
        metrics("list after", "--list"),
    ]  # fmt: skip
