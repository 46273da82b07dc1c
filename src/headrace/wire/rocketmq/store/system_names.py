"""Names that RocketMQ's brokers use for themselves."""

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
"""Messages that wait for a delay level; the queue's id is the level minus 1."""
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Messages of transactions, decided or not."""
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""The queue offsets of messages of the half topic that are decided."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Messages that wait for a time."""
ROCKSDB_TOPIC_PREFIX = "RMQ_SYS_ROCKSDB_"
"""Messages of transactions whose state is in RocksDB (transRocksDBEnable)."""
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
"""Messages that were popped, and their acknowledgements."""
HALF_GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose offset of the half topic is behind the messages that are decided for good."""
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
LMQ_PREFIX = "%LMQ%"
"""Queues of light topics, whose messages are stored under another topic."""
HELD_TOPICS = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC})
"""Topics whose messages wait for other topics."""
_TOPICS = HELD_TOPICS | {"TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest"}
_TOPIC_PREFIXES = ("rmq_sys_", "%SYS%", ROCKSDB_TOPIC_PREFIX)
_TOPIC_SUFFIXES = ("_REPLY_TOPIC",)
_GROUPS = frozenset(
    {
        "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP", "SELF_TEST_P_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL", "CLIENT_INNER_PRODUCER",
    }
)  # fmt: skip
_GROUP_PREFIX = "CID_RMQ_SYS_"


def is_system_topic(name: str) -> bool:
    """Return whether a broker makes a topic of this name for itself.

    The topics of traces and of given up transactions are not among them: clients read them.
    """
    return name in _TOPICS or name.startswith(_TOPIC_PREFIXES) or name.endswith(_TOPIC_SUFFIXES)


def is_system_group(name: str) -> bool:
    """Return whether brokers and tools use a group of this name for themselves."""
    return name in _GROUPS or name.startswith(_GROUP_PREFIX)
