"""The protocols that brokers serve: one row each, which is all that other rooms know of them.

A new protocol adds its own rooms and one row of `ROWS` (docs/protocols.md). A row names code of its
rooms as text, `module` or `module:attribute`, so that rooms below need not import it; it is loaded
where a listener, a setting or a command of the protocol is used.
"""

from importlib import import_module
from typing import Any

from headrace.model.errors import Malformed
from headrace.model.protocol_row import (
    Command,
    DevListener,
    ListenerProtocol,
    ProtocolRow,
    ReservedTopics,
)

_OR_LOCK = "let it speak SASL_SSL (headrace serve --secure makes all that needs)"

KAFKA = ProtocolRow(
    "Kafka",
    (
        ListenerProtocol(
            "PLAINTEXT",
            anonymous=True,
            lacks=f"without encryption and authentication; {_OR_LOCK}",
        ),
        ListenerProtocol(
            "SSL",
            tls=True,
            lacks=f"without authentication; set ssl.client.auth=required, or {_OR_LOCK}",
            certificate_suffices=True,
        ),
        ListenerProtocol(
            "SASL_PLAINTEXT",
            sasl=True,
            lacks="without encryption: who listens on the way can take connections over, and read"
            f" PLAIN's passwords; {_OR_LOCK}",
        ),
        ListenerProtocol("SASL_SSL", tls=True, sasl=True, certificate_by_listener=True),
    ),
    try_it="echo hello | {headrace} produce orders{where} && {headrace} consume orders"
    " --from-beginning -n 1{where}",
    first_bytes="headrace.wire.first_bytes:KAFKA",
)  # fmt: skip
"""Kafka's listener protocols in the order in which its inter-broker protocol numbers them."""

AMQP_TOPICS = ReservedTopics(
    "AMQP",
    prefix="__amqp.",
    kept_for="an AMQP queue",
    plural="AMQP's queues",
    closed=frozenset({"__amqp.declarations"}),
    internal={
        "__amqp.declarations": {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            # A declaration is not refused for its size: an operator's arguments have no bound.
            "max.message.bytes": str(100 * 1024 * 1024),
            "min.insync.replicas": "1",
            # A start reads what is not compacted, and compaction leaves the newest segment.
            "segment.bytes": str(8 * 1024 * 1024),
            "unclean.leader.election.enable": "false",
        }
    },
    internal_partitions=8,
    create="declare the queue, which makes it",
    partitions="it has a partition for each priority",
    configs="its settings are the queue's",
    positions_copied=True,
)
POLICY_RECORDS = "headrace.declarations.2"
"""The feature of brokers that read policies in the log of declarations (ADR 85)."""
EXCHANGE_TYPES_1 = "headrace.exchange.types.1"
"""The feature of brokers that have x-random, x-local-random, x-modulus-hash, x-consistent-hash."""
AMQP = ProtocolRow(
    "AMQP",
    (
        ListenerProtocol(
            "AMQP",
            5672,
            "amqp",
            lacks="without encryption: who listens on the way can read passwords; let it speak"
            " AMQPS",
            tls_advice="use amqps:// there",
        ),
        ListenerProtocol(
            "AMQPS",
            5671,
            "amqps",
            tls=True,
            certificate_by_listener=True,
            tls_advice="use amqps:// there",
        ),
    ),
    clients="RabbitMQ",
    try_it="{headrace} amqp user create alice{where} && {headrace} amqp permission set alice '.*'"
    " '.*' '.*'{where}",
    frontend="headrace.frontends.amqp.frontend",
    first_bytes="headrace.wire.amqp.first_bytes:AMQP",
    settings="headrace.wire.amqp.settings:AmqpKeys",
    listeners_help="AMQP://host and AMQPS://host are for RabbitMQ clients, with 5672 and 5671 as"
    " default ports.",
    stored="headrace.cluster.settings.vhost_settings:stored_settings",
    stored_kinds=("amqp-vhosts", "amqp-users", "amqp-parameters"),
    topics=AMQP_TOPICS,
    former_nodes="/headrace-amqp/declarations",
    process_files="headrace-amqp-spill-",
    certificate_users="amqp.ssl.cert.login.from",
    feature="headrace.queues",
    later_features=(POLICY_RECORDS, EXCHANGE_TYPES_1),
    administered=True,
    command=Command(
        "amqp",
        "headrace.amqp_commands.amqp.amqp:app",
        "Manage vhosts, users, permissions, queues, exchanges and connections of RabbitMQ"
        " clients.\n\nFor example: headrace amqp vhost create shop; headrace amqp"
        " permission set alice '.*' '.*' '.*' --vhost shop; headrace amqp queue list",
    ),
    dev=DevListener(
        "AMQP",
        "amqp_port",
        "The first broker's port for RabbitMQ clients, with the user guest; the others use the"
        " following ones. 0: free ports. Default: 5672 if all are free; else, and with --port 0,"
        " free ports.",
        "RabbitMQ clients",
        {"amqp.guest": "true"},
    ),
)

MANAGEMENT = ProtocolRow(
    "Management",
    (
        ListenerProtocol(
            "MANAGEMENT",
            15672,
            "http",
            lacks="without encryption: who listens on the way can read passwords; let it speak"
            " MANAGEMENT_SSL",
            tls_advice="use https:// there",
            places_apart=64,
        ),
        ListenerProtocol(
            "MANAGEMENT_SSL",
            15671,
            "https",
            tls=True,
            certificate_by_listener=True,
            tls_advice="use https:// there",
            places_apart=64,
        ),
    ),
    clients="RabbitMQ's management API",
    try_it="curl http://{address}/api/version",
    frontend="headrace.frontends.management.frontend",
    needs="AMQP",
    first_bytes="headrace.wire.first_bytes:HTTP",
    listeners_help="MANAGEMENT://host and MANAGEMENT_SSL://host are for clients of RabbitMQ's"
    " management API, with 15672 and 15671 as default ports. They need an AMQP listener, too.",
    dev=DevListener(
        "MANAGEMENT",
        "management_port",
        "The first broker's port for RabbitMQ's management API; the others use the following ones."
        " 0: free ports. Default: 15672 if all are free; else, and with --port 0, free ports.",
        "clients of the management API",
        {},
    ),
)

ROCKETMQ_TOPICS = ReservedTopics(
    "RocketMQ",
    prefix="__rocketmq.",
    kept_for="a RocketMQ group",
    plural="RocketMQ's groups",
    closed=frozenset({"__rocketmq.delays", "__rocketmq.half"}),
    create="RocketMQ's consumers need it, and the broker makes it",
    partitions="it has as many queues as the broker made",
    configs="its settings are the broker's",
)
ROCKETMQ = ProtocolRow(
    "RocketMQ",
    (
        ListenerProtocol(
            "ROCKETMQ",
            9876,
            tls_mode="rocketmq.tls.server.mode",
            anonymous=True,
            lacks="without encryption, authentication or both; set"
            " rocketmq.tls.server.mode=enforcing, and ssl.client.auth=required or"
            " rocketmq.access.keys",
            certificate_suffices=True,
            signing_keys="rocketmq.access.keys",
            tls_advice="set tls.enable=true there",
        ),
    ),
    try_it="{headrace} mqadmin updateTopic -b {address} -t shop -r 4 -w 4 && {headrace} mqadmin"
    " topicStatus -n {address} -t shop",
    topic_name="headrace.wire.rocketmq.topic_names:kafka_name",
    frontend="headrace.frontends.rocketmq.frontend",
    first_bytes="headrace.wire.rocketmq.commands:FIRST_BYTES",
    settings="headrace.wire.rocketmq.settings:RocketmqKeys",
    listeners_help="ROCKETMQ://host is for RocketMQ remoting clients, name server and broker on"
    " one port, 9876 by default.",
    topics=ROCKETMQ_TOPICS,
    administered=True,
    command=Command(
        "rocketmq",
        "headrace.cli.rocketmq.rocketmq:app",
        "Explain where RocketMQ's consumer groups begin; move stores, offsets, topics and groups."
        "\n\nFor example: headrace rocketmq where-would-a-group-begin orders",
    ),
    more_commands=(
        Command(
            "mqadmin",
            "headrace.cli.rocketmq.mqadmin:app",
            "Administer RocketMQ topics and groups with mqadmin's own verbs, options and output."
            "\n\n-n HOST:PORT is the name server: the broker's ROCKETMQ listener. Without it"
            " NAMESRV_ADDR is, or 127.0.0.1:9876. Verbs: brokerStatus, clusterList,"
            " consumerConnection, consumerProgress, deleteKvConfig, deleteSubGroup, deleteTopic,"
            " getBrokerConfig, getConsumerConfig, producerConnection, queryMsgById, queryMsgByKey,"
            " queryMsgByUniqueKey, resetOffsetByTime, skipAccumulatedMessage, topicClusterList,"
            " topicList, topicRoute, topicStatus, updateBrokerConfig, updateKvConfig,"
            " updateSubGroup, updateTopic, updateTopicPerm.\n\n-h behind a verb shows its options."
            "\n\nFor example: headrace mqadmin consumerProgress -n 127.0.0.1:9876 -g billing;"
            " headrace mqadmin updateTopic -h",
        ),
    ),
)

ROWS = [KAFKA, AMQP, MANAGEMENT, ROCKETMQ]
"""Every protocol that listeners may speak. Read when a module is imported or called: a row is
added before the configuration is imported."""


def listener_protocols() -> dict[str, ListenerProtocol]:
    """Return all listener protocols by name, Kafka's first."""
    return {spoken.name: spoken for row in ROWS for spoken in row.listeners}


def row_of(listener_protocol: str) -> ProtocolRow:
    """Return the row of a listener protocol. Raises KeyError."""
    for row in ROWS:
        if any(spoken.name == listener_protocol for spoken in row.listeners):
            return row
    raise KeyError(listener_protocol)


def reserved_topics(topic: str) -> ReservedTopics | None:
    """Return the row of the protocol that keeps its data in a topic of this name, or None."""
    for row in ROWS:
        if row.topics is not None and topic.startswith(row.topics.prefix):
            return row.topics
    return None


def feature_of(topic: str) -> str:
    """Return the feature of brokers that may have replicas of a topic; empty: all brokers may."""
    reserved = reserved_topics(topic)
    return "" if reserved is None else next(row.feature for row in ROWS if row.topics is reserved)


def is_own_state(topic: str) -> bool:
    """Return whether a topic has a protocol's own state, for which its row has the settings."""
    reserved = reserved_topics(topic)
    return reserved is not None and topic in reserved.internal


def is_closed(topic: str) -> bool:
    """Return whether no client may read or write a topic, as a protocol keeps its state there."""
    reserved = reserved_topics(topic)
    return reserved is not None and topic in reserved.closed


def are_positions_copied(topic: str) -> bool:
    """Return whether a replica needs a copy of the topic's settled positions to be in sync."""
    reserved = reserved_topics(topic)
    return reserved is not None and reserved.positions_copied and topic not in reserved.closed


def other_topic_names(topic: str) -> dict[str, str]:
    """Return Kafka's names of topics that clients of other protocols know by this name.

    By the row's name; protocols whose names are Kafka's are left out.
    """
    found = {}
    for row in ROWS:
        if row.topic_name:
            try:
                name = loaded(row.topic_name)(topic)
            except Malformed:
                continue
            if name != topic:
                found[row.name] = name
    return found


def loaded(name: str) -> Any:  # noqa: ANN401 - whatever a row names
    """Import and return what a row names as `module:attribute`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
