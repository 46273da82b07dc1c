"""The broker's settings for clients of RocketMQ: `rocketmq.*`."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind
from headrace.model.secret import Secret

_SECRET_CHARACTERS_MIN = 8
_ANONYMOUS = "ANONYMOUS"


def parse_access_keys(text: str) -> dict[str, Secret]:
    """Parse `KEY:SECRET,KEY:SECRET`; ValueError shows no secret."""
    found: dict[str, Secret] = {}
    for number, entry in enumerate(text.split(",") if text.strip() else (), 1):
        key, _, secret = entry.strip().partition(":")
        if not key or any(map(str.isspace, key)):
            raise ValueError(f"entry {number} is not KEY:SECRET")
        if len(secret) < _SECRET_CHARACTERS_MIN:
            few = f"a secret has {_SECRET_CHARACTERS_MIN} characters or more"
            raise ValueError(f"entry {number}: {few}")
        if key == _ANONYMOUS:
            raise ValueError(f"entry {number}: {_ANONYMOUS} is the user without authentication")
        if key in found:
            raise ValueError(f"entry {number}: the access key appears more than once")
        found[key] = Secret(secret)
    return found


class RocketmqKeys(Keys):
    """Settings of RocketMQ listeners, with the defaults of RocketMQ 5.5.0."""

    rocketmq_access_keys = key(
        Kind.PASSWORD,
        "",
        "Users of RocketMQ listeners: ACCESSKEY:SECRET, separated by commas. If any is set, each"
        " request must be signed (AclClientRPCHook), unless the client has a certificate. The user"
        " is User: and the access key. A secret has 8 characters or more, without a comma.",
        check=parse_access_keys,
    )
    rocketmq_advertised_address = key(
        Kind.STRING,
        "",
        "The address, HOST:PORT, of this broker in the routes of RocketMQ clients. Empty: the"
        " address that the client has connected to, which is right unless an address is translated"
        " between them.",
        form=(r"(\S+:\d{1,5})?", "HOST:PORT"),
    )
    rocketmq_cluster_name = key(
        Kind.STRING,
        "DefaultCluster",
        "The cluster name that RocketMQ clients and mqadmin are told.",
        form=(r"[\w-]{1,100}", "letters, digits, _ and -"),
    )
    rocketmq_default_topic_queues = key(
        Kind.INT,
        8,
        "The most queues of a topic that a RocketMQ producer creates by sending to it, as"
        " RocketMQ's defaultTopicQueueNums. The producer asks for a number, 4 by default. Topics"
        " are created if auto.create.topics.enable is true.",
        between=(1, 1024),
    )
    rocketmq_disk_max_used_percent = key(
        Kind.INT,
        90,
        "While more of a log directory's file system is used, sends of RocketMQ producers are"
        " refused (SERVICE_NOT_AVAILABLE, 14), as above RocketMQ's diskSpaceWarningLevelRatio;"
        " pulls go on. 100: only log.dirs.free.bytes.min refuses sends.",
        between=(1, 100),
    )
    rocketmq_file_reserved_hours = key(
        Kind.INT,
        72,
        "The retention of topics that RocketMQ clients create, in hours, as RocketMQ's"
        " fileReservedTime. It is stored as retention.ms of the topic when it is created."
        " Messages of transactions are given up after it if no producer could be asked."
        " -1: without an end.",
        between=(-1, 24 * 36_500),
    )
    rocketmq_recall_message_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether RocketMQ producers may recall delayed messages, as RocketMQ's"
        " recallMessageEnable.",
    )
    rocketmq_region_id = key(
        Kind.STRING,
        "DefaultRegion",
        "The property MSG_REGION of messages that RocketMQ consumers pull.",
        form=(r"[\w-]{1,100}", "letters, digits, _ and -"),
    )
    rocketmq_server_side_reset = key(
        Kind.BOOLEAN,
        True,
        "Whether a reset of a RocketMQ group's offsets is stored and answered to the group's next"
        " pulls, as RocketMQ's useServerSideResetOffset. false: it is pushed to the members that"
        " are online, as by RocketMQ 4.9.",
    )
    rocketmq_timer_max_delay_seconds = key(
        Kind.INT,
        259_200,
        "The longest delay of a RocketMQ message that is delivered at a time, as RocketMQ's"
        " timerMaxDelaySec: 3 days. A longer one is refused. Delay levels do not count.",
        between=(1, 365 * 86_400),
    )
    rocketmq_tls_server_mode = key(
        Kind.STRING,
        "permissive",
        "Whether RocketMQ listeners use TLS, as RocketMQ's tls.server.mode. permissive: clients"
        " with and without TLS are served on one port if the listener has a certificate"
        " (ssl.keystore.*), else only those without TLS. enforcing: only clients with TLS."
        " disabled: only those without.",
        words=("disabled", "permissive", "enforcing"),
    )
    rocketmq_transaction_check_interval_ms = key(
        Kind.INT,
        30_000,
        "How often a RocketMQ producer group is asked about a message of a transaction that it has"
        " neither committed nor rolled back, as RocketMQ's transactionCheckInterval.",
        between=(100, 86_400_000),
    )
    rocketmq_transaction_check_max = key(
        Kind.INT,
        15,
        "How often a RocketMQ producer group is asked about one message, as RocketMQ's"
        " transactionCheckMax. Then the message goes to the topic TRANS_CHECK_MAX_TIME_TOPIC.",
        between=(1, 10_000),
    )
    rocketmq_transaction_timeout_ms = key(
        Kind.INT,
        6000,
        "After what time a RocketMQ producer group is asked first about a message of a transaction,"
        " as RocketMQ's transactionTimeOut.",
        between=(0, 86_400_000),
    )
    rocketmq_zero_offset_memory_bytes = key(
        Kind.LONG,
        8 * 1024**3,
        "The memory by which rocketmq.zero.offset.rule=4.9 decides: a queue of less than 40 % of"
        " it counts as in memory.",
        at_least=0,
    )
    rocketmq_zero_offset_rule = key(
        Kind.STRING,
        "5",
        "When a RocketMQ group without an offset of a queue begins at offset 0, whatever its"
        " CONSUME_FROM setting. 5: if the queue still has offset 0, as RocketMQ 5.5.0. 4.9: if"
        " nothing was deleted yet and the queue is in memory or empty, as RocketMQ 4.9. new-queue:"
        " if the queue was added after the group began to consume the topic. off: never, the"
        " client's setting decides.",
        words=("5", "4.9", "new-queue", "off"),
    )
