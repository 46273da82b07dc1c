"""The verbs of `headrace mqadmin` for topics and messages."""

import json

from headrace.cli.rocketmq.options import BROKER, CLUSTER, TOPIC, Option, Options
from headrace.cli.rocketmq.verbs import (
    Asked,
    Verb,
    by_queue,
    columns,
    local_time,
    row,
    shown,
    whole,
)
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import print_line
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.message_ids import physical_offset_of
from headrace.wire.rocketmq.properties import decode_properties
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages
from headrace.wire.rocketmq.topic_names import DEAD_LETTER_PREFIX, RETRY_PREFIX

_MINE = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_MS_AN_HOUR = 3_600_000
_LONG_MAX = (1 << 63) - 1


def topic_list(asked: Asked) -> None:
    """List topics; -c: with clusters and groups."""
    listed = asked.remoting.read(asked.name_server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    names = listed.get("topicList")
    topics = [str(name) for name in names] if isinstance(names, list) else []
    if "c" not in asked.options:
        for topic in topics:
            print_line(topic)
        return
    form = ("<20", "<48", "<48")
    columns(form, "#Cluster Name", "#Topic", "#Consumer Group")
    form = ("<20", "<64", "<64")
    for cluster, brokers in asked.clusters().items():
        for topic in topics:
            if topic.startswith(_MINE) or not brokers:
                continue
            found = asked.remoting.read(
                brokers[0][1], RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}
            )
            groups = found.get("groupList")
            for group in (groups if isinstance(groups, list) else None) or [""]:
                columns(form, cluster, topic, group)


def topic_route(asked: Asked) -> None:
    """Show a topic's brokers and queues."""
    route = dict(asked.route(asked.text("t")))
    print_line(json.dumps(route, indent="\t", default=lambda value: dict(value.pairs)))


def topic_status(asked: Asked) -> None:
    """Show offsets and last times of a topic's queues."""
    topic = asked.text("t")
    form = ("<32", "<4", "<20", "<22", "<0")
    header = ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    columns(form, *header)
    rate = 0.0
    for _, address in asked.brokers_of(topic):
        stats = asked.remoting.read(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        for queue, value in by_queue(stats.get("offsetTable")):
            state = row(value)
            last = local_time(whole(state.get("lastUpdateTimestamp")), millis=True)
            ends = state.get("minOffset"), state.get("maxOffset")
            columns(form, queue["brokerName"], queue["queueId"], *ends, last)
        tps = stats.get("topicPutTps")
        rate += tps if isinstance(tps, int | float) else 0.0
    print_line("")
    print_line(f"Topic Put TPS: {rate}")


def topic_clusters(asked: Asked) -> None:
    """List the clusters of a topic."""
    brokers = {name for name, _ in asked.brokers_of(asked.text("t"))}
    for cluster, members in asked.clusters().items():
        if brokers & {name for name, _ in members}:
            print_line(cluster)


def _config_line(fields: dict[str, object]) -> str:
    perm = int(str(fields["perm"]))
    letters = "".join(
        letter if perm & bit else "-" for bit, letter in ((4, "R"), (2, "W"), (1, "X"))
    )
    changes = str(fields.get("attributes") or "")
    return (
        f"TopicConfig [topicName={fields['topic']}, readQueueNums={fields['readQueueNums']},"
        f" writeQueueNums={fields['writeQueueNums']}, perm={letters},"
        f" topicFilterType=SINGLE_TAG, topicSysFlag=0, order={shown(bool(fields['order']))},"
        f" attributes={{{changes}}}]"
    )


def update_topic(asked: Asked) -> None:
    """Create a topic, or change its numbers of queues, permission and attributes."""
    fields: dict[str, object] = {
        "topic": asked.text("t"),
        "defaultTopic": "TBW102",
        "readQueueNums": asked.number("r", 8),
        "writeQueueNums": asked.number("w", 8),
        "perm": asked.number("p", 6),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": asked.flag("o"),
        "attributes": asked.text("a", ""),
    }
    for address in asked.addresses():
        asked.remoting.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        print_line(f"create topic to {address} success.")
    print_line(_config_line(fields))


def update_permission(asked: Asked) -> None:
    """Set a topic's permission: 2 write, 4 read, 6 both."""
    topic, perm = asked.text("t"), asked.number("p", -1)
    if perm not in (2, 4, 6):
        raise UsageError("option -p is 2, 4 or 6: write, read, both")
    for address in asked.addresses():
        found = asked.remoting.read(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
        present = whole(found.get("perm"))
        if present == perm:
            print_line("new perm equals to the old one!")
            continue
        fields: dict[str, object] = {
            "topic": topic,
            "readQueueNums": found.get("readQueueNums"),
            "writeQueueNums": found.get("writeQueueNums"),
            "perm": perm,
            "order": found.get("order"),
        }
        asked.remoting.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        print_line(f"update topic perm from {present} to {perm} in {address} success.")
        print_line(_config_line(fields) + ".")


def delete_topic(asked: Asked) -> None:
    """Delete a topic in a cluster."""
    topic, cluster = asked.text("t"), asked.text("c")
    for address in asked.addresses():
        asked.remoting.ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    print_line(f"delete topic [{topic}] from cluster [{cluster}] success.")
    asked.remoting.ask(asked.name_server, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})
    print_line(f"delete topic [{topic}] from NameServer success.")


# Messages


def _queried(asked: Asked, topic: str, key: str, unique: bool) -> list[PulledMessage]:
    found: list[PulledMessage] = []
    fields = {
        "topic": topic,
        "key": key,
        "maxNum": asked.number("m", 64),
        "beginTimestamp": asked.number("b", 0),
        "endTimestamp": asked.number("e", _LONG_MAX),
        "indexType": "U" if unique else "K",
        "_UNIQUE_KEY_QUERY": unique,
    }
    for _, address in asked.brokers_of(topic):
        answer = asked.remoting.ask(address, RequestCode.QUERY_MESSAGE, fields)
        found += decode_messages(bytes(answer.body))
    return found


def _unique_key(message: PulledMessage) -> str:
    return decode_properties(message.properties).get("UNIQ_KEY", "")


def query_by_key(asked: Asked) -> None:
    """List the messages with a key."""
    topic, key = asked.text("t"), asked.text("k")
    form = ("<50", ">4", ">40", "<200")
    columns(form, "#Message ID", "#QID", "#Offset", "#IndexKey", between=" ")
    for message in _queried(asked, topic, key, unique=False):
        unique = _unique_key(message)
        hour_ms = message.stored_at_ms - message.stored_at_ms % _MS_AN_HOUR
        entry = f"{hour_ms}@{topic}@K@{key}@{unique}@{message.physical_offset}"
        columns(form, unique, message.queue_id, message.queue_offset, entry, between=" ")


def query_by_unique_key(asked: Asked) -> None:
    """Show the message that a producer got an id for."""
    for message in _queried(asked, asked.text("t"), asked.text("i"), unique=True):
        _print_message(message, "")


def query_by_id(asked: Asked) -> None:
    """Show the message with a broker's id, by the broker of the topic of -t."""
    text = asked.text("i")
    fields = {"offset": physical_offset_of(text)}
    addresses = (
        [address for _, address in asked.brokers_of(asked.text("t"))]
        if "t" in asked.options
        else [address for found in asked.clusters().values() for _, address in found]
    )
    for address in addresses:
        answer = asked.remoting.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, fields)
        for message in decode_messages(bytes(answer.body)):
            _print_message(message, text)
        return
    raise CommandError("the name server knows no broker")


def _print_message(message: PulledMessage, offset_id: str) -> None:
    properties = decode_properties(message.properties)
    lines = {
        "OffsetID": offset_id,
        "Topic": message.topic.decode(),
        "Tags": f"[{properties.get('TAGS', 'null')}]",
        "Keys": f"[{properties.get('KEYS', 'null')}]",
        "Queue ID": message.queue_id,
        "Queue Offset": message.queue_offset,
        "CommitLog Offset": message.physical_offset,
        "Reconsume Times": message.reconsume_times,
        "Born Timestamp": local_time(message.born_at_ms, millis=True),
        "Store Timestamp": local_time(message.stored_at_ms, millis=True),
        "System Flag": message.system_flag,
        "Properties": "{" + ", ".join(f"{k}={v}" for k, v in properties.items()) + "}",
    }
    for name, value in lines.items():
        if value != "" or name != "OffsetID":
            print_line(f"{name + ':':<20} {value}")


_EITHER = (BROKER, CLUSTER)
_PERMISSION = Option("p", "perm", "Permission: 2 write, 4 read, 6 both")
TOPIC_VERBS = (
    Verb(
        "topicList",
        topic_list,
        Options([Option("c", "clusterModel", "Show clusters and groups, too", valued=False)]),
    ),
    Verb("topicRoute", topic_route, Options([TOPIC], unavailable=["-l"])),
    Verb("topicStatus", topic_status, Options([TOPIC], unavailable=["-c"])),
    Verb("topicClusterList", topic_clusters, Options([TOPIC])),
    Verb(
        "updateTopic",
        update_topic,
        Options(
            [
                TOPIC,
                Option("r", "readQueueNums", "Number of queues to read, 8 by default"),
                Option("w", "writeQueueNums", "Number of queues to write, 8 by default"),
                _PERMISSION,
                Option("o", "order", "Whether the topic is ordered: true or false"),
                Option("a", "attributes", "Attributes to set and remove, as +a=b,+c=d,-e"),
            ],
            _EITHER,
            ["-u", "-s"],
        ),
    ),
    Verb(
        "updateTopicPerm",
        update_permission,
        Options([TOPIC, _PERMISSION._replace(required=True)], _EITHER),
    ),
    Verb("deleteTopic", delete_topic, Options([TOPIC, CLUSTER._replace(required=True)])),
    Verb(
        "queryMsgByKey",
        query_by_key,
        Options(
            [
                TOPIC,
                Option("k", "msgKey", "The key of the messages", required=True),
                Option("b", "beginTimestamp", "Stored at or after this time, in ms since 1970"),
                Option("e", "endTimestamp", "Stored at or before this time, in ms since 1970"),
                Option("m", "maxNum", "Messages at most, 64 by default"),
            ],
            unavailable=["-c", "-p", "-l"],
        ),
    ),
    Verb(
        "queryMsgByUniqueKey",
        query_by_unique_key,
        Options(
            [TOPIC, Option("i", "msgId", "The id that the producer got", required=True)],
            unavailable=["-g", "-d", "-a", "-c", "-s", "-e"],
        ),
    ),
    Verb(
        "queryMsgById",
        query_by_id,
        Options(
            [
                TOPIC._replace(required=False),
                Option("i", "msgId", "The id of the broker's", required=True),
            ],
            unavailable=["-g", "-d", "-s", "-u", "-f", "-c"],
        ),
    ),
)
