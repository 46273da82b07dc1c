"""What Kafka's tools are asked where ACLs decide: ACLs and users are made, refusals are met.

Each step finds what the ones before it left. `admin` is a super user, `alice` is allowed things on
the way, `mallory` never anything.
"""

from collections.abc import Callable

from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.masks import Mask
from tests.outside.kafka_tools.step import (
    CONFIGS,
    CONSUMER,
    GROUPS,
    OFFSETS,
    PRODUCER,
    TOOLS,
    TOPICS,
    TRANSACTIONS,
    Side,
    Step,
)

ACLS = f"{TOOLS}.AclCommand"
USERS = {"admin": "admin-secret", "alice": "alice-secret", "mallory": "mallory-secret"}
_SECONDS = 120.0


def _as(user: str, name: str, tool: str, words: str, *mask: Mask, **more: object) -> Step:
    return Step(
        f"{user}: {name}", tool, words, mask=mask, seconds_max=_SECONDS,
        address=f"--bootstrap-server {{broker}} --command-config {{place}}/{user}.properties",
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _acls(name: str, words: str, *mask: Mask, **more: object) -> Step:
    return _as("admin", f"acls {name}", ACLS, words, *(mask or (masks.in_any_order,)), **more)


def furnishing() -> list[Step]:
    """Topics one and two, records, and a group with offsets.

    One partition each: to which of several a producer writes what has no key is a draw.
    """
    return [
        _as("admin", "topics create one", TOPICS, "--create --topic one --partitions 1"),
        _as("admin", "topics create two", TOPICS, "--create --topic two --partitions 1"),
        _as("admin", "console-producer", PRODUCER, "--topic one --sync", stdin="a\nb\nc\n"),
        _as("admin", "console-consumer", CONSUMER,
            "--topic one --from-beginning --group g1 --max-messages 3 --timeout-ms 60000",
            masks.in_any_order, expected=("Processed a total of 3 messages",)),
    ]  # fmt: skip


def acls() -> list[Step]:
    """kafka-acls.sh."""
    alice = "--allow-principal User:alice"
    return [
        _acls("list none", "--list"),
        _acls("add", f"--add {alice} --operation Read --topic one", expected=("ALLOW",)),
        _acls("add again", f"--add {alice} --operation Read --topic one"),
        _acls("add several", f"--add {alice} --operation Write --operation Describe"
              " --topic one --topic two"),
        _acls("add a prefix", f"--add {alice} --operation All --topic al --resource-pattern-type"
              " prefixed"),
        _acls("add with hosts", f"--add {alice} --allow-host 10.0.0.1 --allow-host 10.0.0.2"
              " --operation Describe --group g1"),
        _acls("add a denial", "--add --deny-principal User:* --deny-host 10.9.9.9 --operation All"
              " --topic *"),
        _acls("add for a producer", "--add --allow-principal User:bob --producer --topic two"
              " --transactional-id tx"),
        _acls("add for an idempotent producer", "--add --allow-principal User:bob --producer"
              " --topic two --idempotent"),
        _acls("add for a consumer", "--add --allow-principal User:bob --consumer --topic two"
              " --group g2"),
        _acls("add for the cluster", "--add --allow-principal User:bob --operation AlterConfigs"
              " --cluster"),
        _acls("add an operation that the resource has not",
              f"--add {alice} --operation Write --group g1", masks.words_in_any_order),
        _acls("add without a principal", "--add --operation Read --topic one"),
        _acls("add a principal that is none", "--add --allow-principal alice --operation Read"
              " --topic one"),
        _acls("add with an unknown operation", f"--add {alice} --operation Fly --topic one",
              masks.words_in_any_order),
        _acls("list all", "--list", expected=("ResourcePattern",)),
        _acls("list of a topic", "--list --topic one"),
        _acls("list of what matches", "--list --topic alpha --resource-pattern-type match"),
        _acls("list of what matches or not", "--list --topic one --resource-pattern-type any"),
        _acls("list of a principal", "--list --principal User:bob"),
        _acls("list of a group", "--list --group g1"),
        _acls("list of the cluster", "--list --cluster"),
        _acls("remove one", f"--remove --force {alice} --operation Write --topic two"),
        _acls("remove what is not there", f"--remove --force {alice} --operation Delete"
              " --topic two"),
        _acls("remove for a producer", "--remove --force --allow-principal User:bob --producer"
              " --topic two --transactional-id tx"),
        _acls("remove all of a topic", "--remove --force --topic one"),
        _acls("remove the prefix", "--remove --force --topic al --resource-pattern-type prefixed"),
        _acls("remove what all topics are denied", "--remove --force --topic *"),
        _acls("remove of the group", "--remove --force --group g1"),
        _acls("remove of another topic", "--remove --force --topic two"),
        _acls("remove of another group", "--remove --force --group g2"),
        _acls("remove of the cluster", "--remove --force --cluster"),
        _acls("list none again", "--list"),
    ]  # fmt: skip


def users() -> list[Step]:
    """kafka-configs.sh of users: SCRAM and quotas."""

    def configs(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return _as("admin", f"configs users {name}", CONFIGS, words, *mask, **more)

    carol = "--entity-type users --entity-name carol"
    return [
        configs("describe none", "--describe --entity-type users"),
        configs("make", f"--alter {carol} --add-config"
                " SCRAM-SHA-256=[iterations=8192,password=carol-256]",
                expected=("Completed updating",)),
        configs("make another way in",
                f"--alter {carol} --add-config SCRAM-SHA-512=[password=carol-512]"),
        configs("describe", f"--describe {carol}", masks.words_in_any_order,
                expected=("SCRAM-SHA-256=iterations=8192",)),
        configs("quotas", f"--alter {carol} --add-config producer_byte_rate=1024"),
        configs("describe with quotas", f"--describe {carol}", masks.words_in_any_order),
        configs("describe all", "--describe --entity-type users", masks.words_in_any_order),
        _as("carol", "topics list", TOPICS, "--list", prepare=_write_carol),
        configs("too few rounds",
                f"--alter {carol} --add-config SCRAM-SHA-256=[iterations=100,password=x]"),
        configs("too many rounds",
                f"--alter {carol} --add-config SCRAM-SHA-256=[iterations=99999,password=x]"),
        configs("an empty password",
                f"--alter {carol} --add-config SCRAM-SHA-256=[password=]"),
        configs("a mechanism that is none",
                f"--alter {carol} --add-config SCRAM-SHA-1=[password=x]"),
        configs("delete a way in", f"--alter {carol} --delete-config SCRAM-SHA-256"),
        configs("delete it again", f"--alter {carol} --delete-config SCRAM-SHA-256"),
        configs("describe after", f"--describe {carol}"),
        configs("delete the quotas", f"--alter {carol} --delete-config producer_byte_rate"),
        configs("delete the other way in", f"--alter {carol} --delete-config SCRAM-SHA-512"),
        configs("describe at the end", f"--describe {carol}"),
        _as("carol", "topics list when gone", TOPICS, "--list",
            expected=("SaslAuthenticationException",)),
        _as("wrong", "topics list with a wrong password", TOPICS, "--list",
            expected=("SaslAuthenticationException",)),
    ]  # fmt: skip


def _write_carol(side: Side) -> None:
    from headrace.config.authentication.jaas import SCRAM_MODULE
    from tests.outside.kafka_tools.on_guarded import write_client

    module = f'{SCRAM_MODULE} required username="carol"'
    write_client(side, "carol", "SCRAM-SHA-512", module, "carol-512")


def _mallory(name: str, tool: str, words: str, *mask: Mask, **more: object) -> Step:
    return _as("mallory", name, tool, words, *mask, **more)


def refused() -> list[Step]:
    """Who may do nothing, by every tool."""
    return [*_refused_settings(), *_refused_data(), *_refused_rest()]


def _refused_settings() -> list[Step]:
    mallory = _mallory
    return [
        mallory("topics list", TOPICS, "--list"),
        mallory("topics describe all", TOPICS, "--describe"),
        mallory("topics describe", TOPICS, "--describe --topic one"),
        mallory("topics describe what is not there", TOPICS, "--describe --topic nope"),
        mallory("topics create", TOPICS, "--create --topic three --partitions 1",
                expected=("AuthorizationException",)),
        mallory("topics create what is there", TOPICS, "--create --topic one --partitions 1"),
        mallory("topics grow", TOPICS, "--alter --topic one --partitions 4"),
        mallory("topics delete", TOPICS, "--delete --topic one"),
        mallory("configs describe a topic", CONFIGS,
                "--describe --entity-type topics --entity-name one"),
        mallory("configs alter a topic", CONFIGS,
                "--alter --entity-type topics --entity-name one --add-config retention.ms=1"),
        mallory("configs describe the broker", CONFIGS,
                "--describe --entity-type brokers --entity-name 1"),
        mallory("configs alter the broker", CONFIGS,
                "--alter --entity-type brokers --entity-name 1 --add-config"
                " log.cleaner.delete.retention.ms=1000"),
        mallory("configs describe users", CONFIGS, "--describe --entity-type users"),
        mallory("configs make a user", CONFIGS,
                "--alter --entity-type users --entity-name mallory --add-config"
                " SCRAM-SHA-256=[password=x]", expected=("ClusterAuthorizationException",)),
        mallory("configs quotas", CONFIGS,
                "--alter --entity-type clients --entity-name c --add-config"
                " producer_byte_rate=1"),
        mallory("configs describe clients", CONFIGS, "--describe --entity-type clients"),
        mallory("configs describe a group", CONFIGS,
                "--describe --entity-type groups --entity-name g1"),
    ]  # fmt: skip


def _refused_data() -> list[Step]:
    mallory = _mallory
    return [
        mallory("console-producer", PRODUCER, "--topic one --sync", stdin="x\n",
                expected=("TopicAuthorizationException",)),
        mallory("console-producer, idempotent not", PRODUCER,
                "--topic one --sync --command-property enable.idempotence=false", stdin="x\n"),
        mallory("console-consumer", CONSUMER,
                "--topic one --from-beginning --timeout-ms 20000",
                expected=("AuthorizationException",)),
        mallory("console-consumer, a partition", CONSUMER,
                "--topic one --partition 0 --offset earliest --timeout-ms 20000"),
        mallory("consumer-groups list", GROUPS, "--list"),
        mallory("consumer-groups describe", GROUPS, "--describe --group g1",
                expected=("GroupAuthorizationException",)),
        mallory("consumer-groups describe state", GROUPS, "--describe --group g1 --state"),
        mallory("consumer-groups describe all", GROUPS, "--describe --all-groups"),
        mallory("consumer-groups reset", GROUPS,
                "--reset-offsets --group g1 --topic one --to-earliest --execute"),
        mallory("consumer-groups delete", GROUPS, "--delete --group g1"),
        mallory("consumer-groups delete offsets", GROUPS,
                "--delete-offsets --group g1 --topic one"),
        mallory("get-offsets", OFFSETS, "--topic-partitions one --time latest"),
    ]  # fmt: skip


def _refused_rest() -> list[Step]:
    mallory = _mallory
    return [
        mallory("acls list", ACLS, "--list", expected=("ClusterAuthorizationException",)),
        mallory("acls add", ACLS,
                "--add --allow-principal User:mallory --operation All --topic *"),
        mallory("acls remove", ACLS, "--remove --force --topic one"),
        mallory("transactions list", TRANSACTIONS, "list"),
        mallory("transactions describe", TRANSACTIONS, "describe --transactional-id tx"),
        mallory("transactions producers", TRANSACTIONS,
                "describe-producers --topic one --partition 0"),
        mallory("transactions abort", TRANSACTIONS,
                "abort --topic one --partition 0 --producer-id 1 --producer-epoch 0"
                " --coordinator-epoch 0"),
        mallory("delete-records", f"{TOOLS}.DeleteRecordsCommand",
                "--offset-json-file {place}/records.json", prepare=_write_records),
        mallory("log-dirs", f"{TOOLS}.LogDirsCommand", "--describe --topic-list one"),
        mallory("client-metrics list", f"{TOOLS}.ClientMetricsCommand", "--list"),
        mallory("client-metrics alter", f"{TOOLS}.ClientMetricsCommand",
                "--alter --name m --metrics a."),
        mallory("groups list", f"{TOOLS}.GroupsCommand", "--list"),
        mallory("cluster id", f"{TOOLS}.ClusterTool", "cluster-id",),
        mallory("reassign-partitions list", f"{TOOLS}.reassign.ReassignPartitionsCommand",
                "--list"),
        mallory("leader-election", f"{TOOLS}.LeaderElectionCommand",
                "--election-type preferred --all-topic-partitions"),
    ]  # fmt: skip


def _write_records(side: Side) -> None:
    (side.place / "records.json").write_text(
        '{"partitions": [{"topic": "one", "partition": 0, "offset": 1}], "version": 1}'
    )


def granted() -> list[Step]:
    """One permission after the other, and what it opens."""

    def alice(name: str, tool: str, words: str, *mask: Mask, **more: object) -> Step:
        return _as("alice", name, tool, words, *mask, **more)

    def grant(words: str) -> Step:
        return _acls(f"add {words}", f"--add --allow-principal User:alice {words}")

    consume = "--topic one --from-beginning --group g3 --max-messages 3 --timeout-ms 20000"
    return [
        grant("--operation Describe --topic one"),
        alice("topics list, one seen", TOPICS, "--list", expected=("one",)),
        alice("topics describe, one seen", TOPICS, "--describe", masks.in_any_order),
        alice("get-offsets, seen", OFFSETS, "--topic-partitions one --time latest",
              masks.in_any_order),
        alice("console-consumer, without the group", CONSUMER, consume,
              expected=("GroupAuthorizationException",)),
        grant("--operation Read --group g3"),
        alice("console-consumer, without the topic", CONSUMER, consume, masks.without_threads,
              expected=("TopicAuthorizationException",)),
        grant("--operation Read --topic one"),
        alice("console-consumer, allowed", CONSUMER, consume, masks.in_any_order,
              expected=("Processed a total of 3 messages",)),
        alice("consumer-groups list, one seen", GROUPS, "--list"),
        alice("consumer-groups describe, seen", GROUPS, "--describe --group g3",
              masks.in_any_order),
        alice("consumer-groups delete, without leave", GROUPS, "--delete --group g3"),
        alice("console-producer, without write", PRODUCER, "--topic one --sync", masks.refusals,
              stdin="x\n", expected=("ClusterAuthorizationException",)),
        grant("--operation Write --topic one"),
        alice("console-producer, allowed", PRODUCER, "--topic one --sync", stdin="d\n"),
        alice("producer-perf in a transaction, without its id", f"{TOOLS}.ProducerPerformance",
              "--topic one --num-records 10 --record-size 10 --throughput -1"
              " --transactional-id tx --transaction-duration-ms 100",
              expected=("TransactionalIdAuthorizationException",)),
        grant("--operation Write --transactional-id tx"),
        alice("producer-perf in a transaction", f"{TOOLS}.ProducerPerformance",
              "--topic one --num-records 10 --record-size 10 --throughput -1"
              " --transactional-id tx --transaction-duration-ms 100", masks.measured,
              expected=("10 records sent",)),
        alice("topics create, without leave", TOPICS, "--create --topic al-1 --partitions 1"),
        grant("--operation Create --topic al --resource-pattern-type prefixed"),
        alice("topics create by prefix", TOPICS, "--create --topic al-1 --partitions 1"),
        alice("topics create beside the prefix", TOPICS, "--create --topic bl-1 --partitions 1"),
        alice("configs alter, without leave", CONFIGS,
              "--alter --entity-type topics --entity-name one --add-config retention.ms=100000"),
        grant("--operation AlterConfigs --topic one"),
        alice("configs alter", CONFIGS,
              "--alter --entity-type topics --entity-name one --add-config retention.ms=100000"),
        alice("configs describe", CONFIGS, "--describe --entity-type topics --entity-name one",
              masks.in_any_order),
        _acls("deny", "--add --deny-principal User:alice --operation Read --topic one"),
        alice("console-consumer, denied", CONSUMER, consume, masks.without_threads,
              expected=("TopicAuthorizationException",)),
        alice("topics describe, denied to read", TOPICS, "--describe --topic one",
              masks.in_any_order),
    ]  # fmt: skip


SECTIONS: dict[str, Callable[[], list[Step]]] = {
    "furnishing": furnishing,
    "acls": acls,
    "users": users,
    "refused": refused,
    "granted": granted,
}
"""All steps, in the order in which they run."""
