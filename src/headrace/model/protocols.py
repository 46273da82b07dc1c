"""The protocols that brokers serve: one row each, which is all that other rooms know of them.

A new protocol adds its own rooms and one row of `ROWS` (docs/protocols.md). A row names code of its
rooms as text, `module` or `module:attribute`, so that rooms below need not import it; it is loaded
where a listener, a setting or a command of the protocol is used.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from headrace.model.errors import Malformed


class ListenerProtocol(NamedTuple):
    """A protocol as `listeners` and `listener.security.protocol.map` name it."""

    name: str
    default_port: int | None = None
    """Where the entry says none; None: each entry must say one."""
    scheme: str = ""
    """Of its addresses in messages to clients; empty: they are written host:port."""
    tls: bool = False
    tls_mode: str = ""
    """The setting that decides about TLS instead: disabled, permissive (clients with and without
    TLS, if a certificate is set) or enforcing; empty: `tls` decides."""
    sasl: bool = False
    """Whether clients authenticate by Kafka's SASL, and `sasl.*` of the listener applies."""
    anonymous: bool = False
    """Whether clients have no identity: without rules, all may do everything where it listens."""
    certificate_by_listener: bool = False
    """Whether only the listener's own ssl.client.auth asks its clients for a certificate."""
    lacks: str = ""
    """The danger of a listener beyond loopback, and its remedy; empty: it may listen anywhere."""
    certificate_suffices: bool = False
    """Whether a listener that requires clients' certificates may listen anywhere."""
    signing_keys: str = ""
    """The setting with users' keys: if any is set, clients without a certificate sign each
    request, which counts as a certificate does. Empty: the protocol has no signatures."""
    tls_advice: str = ""
    """How to configure TLS in a client that connected without it."""


class ReservedTopics(NamedTuple):
    """The topics that a protocol keeps its data in, and what Kafka's clients may do to them.

    Kafka's clients see them as internal topics, and read and write them where an ACL names them,
    but for those that are closed.
    Creation, deletion and DeleteRecords are done by the protocol's `broker.reserved_topics`.
    """

    protocol: str
    """The name of its row."""
    prefix: str
    """The first characters of their names."""
    kept_for: str
    """The owner of a topic, with its article."""
    plural: str
    """All owners, in `headrace topic list`."""
    closed: frozenset[str] = frozenset()
    """Topics of them that clients neither read nor write, whatever ACLs say: the broker's own."""
    internal: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """The settings of topics with the broker's own state, by name: also of those that are adopted
    from a log directory after the metadata store was lost."""
    internal_partitions: int = 1
    """The number of partitions of each topic with the broker's own state."""
    create: str = ""
    """Why CreateTopics is refused: how to create the owner; empty: it is not."""
    partitions: str = ""
    """Why CreatePartitions is refused; empty: it is not."""
    configs: str = ""
    """Why AlterConfigs is refused; empty: it is not."""
    positions_copied: bool = False
    """Whether a replica that joins the ISR needs a copy of the settled positions; not if
    `closed`."""


class Command(NamedTuple):
    """The protocol's group of `headrace`."""

    name: str
    app: str
    help: str


class DevListener(NamedTuple):
    """The listener that each broker of `headrace dev` has for the protocol."""

    listener: str
    """The name of the listener protocol. Its default port and the next ones are used if all are
    free."""
    flag: str
    """The parameter that sets the first broker's port: `amqp_port` is --amqp-port."""
    help: str
    clients: str
    """Its clients, in the warning that a port is taken."""
    settings: Mapping[str, str]
    """Settings of the brokers, where the command does not give them."""


class ProtocolRow(NamedTuple):
    """A protocol: what a broker, its configuration and its command need to know of it."""

    name: str
    listeners: tuple[ListenerProtocol, ...]
    clients: str = ""
    """Its clients' usual name, in the help of `headrace`; empty: the row's name."""
    try_it: str = ""
    """The command that is displayed when a broker with a listener of it has started: `{headrace}`
    is the command, `{address}` the listener, `{where}` the options that name the broker."""
    topic_name: str = ""
    """A function that returns Kafka's name of a topic by its clients' name, or raises Malformed;
    empty: the names are the same."""
    frontend: str = ""
    """A module with `frontend(parts)`, which returns a `server.frontends.OtherFrontend`. Empty:
    Kafka's, which serves all other listeners."""
    first_bytes: str = ""
    """A `wire.first_bytes.FirstBytes`, by which its clients are known at a wrong port."""
    settings: str = ""
    """A `config.keys.row.Keys`, the broker's settings for it; empty: none."""
    listeners_help: str = ""
    """A sentence of the documentation of `listeners`."""
    stored: str = ""
    """A function `(configs, change, config)` that returns a `cluster.settings.stored_settings.
    StoredSettings`; empty: it keeps no settings below `/config` in the metadata store."""
    stored_kinds: tuple[str, ...] = ()
    """The names of their nodes below `/config`."""
    topics: ReservedTopics | None = None
    former_nodes: str = ""
    """The parent of nodes of the metadata store that earlier versions wrote, and that a start with
    a listener of the protocol moves to its topics; empty: there are none."""
    process_files: str = ""
    """The first characters of files in log directories that end with the process; empty: none."""
    certificate_users: str = ""
    """The setting that says which part of a certificate names the user; empty: Kafka's rules."""
    feature: str = ""
    """The feature that the registration of a broker with a listener of it has in a cluster: the
    protocol's topics are placed on such brokers only. Empty: no feature."""
    later_features: tuple[str, ...] = ()
    """Further features of such a broker, for data that earlier versions cannot read."""
    administered: bool = False
    """Whether administrators reach its operations by Kafka's API 20000 (`operations.registry`)."""
    command: Command | None = None
    more_commands: tuple[Command, ...] = ()
    dev: DevListener | None = None
    """None: `headrace dev` does not serve it unless it is asked to."""


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
    stored_kinds=("amqp-vhosts", "amqp-users"),
    topics=AMQP_TOPICS,
    former_nodes="/headrace-amqp/declarations",
    process_files="headrace-amqp-spill-",
    certificate_users="amqp.ssl.cert.login.from",
    feature="headrace.queues",
    later_features=(POLICY_RECORDS,),
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

ROWS = [KAFKA, AMQP, ROCKETMQ]
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
