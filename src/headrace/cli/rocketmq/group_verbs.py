"""The verbs of `headrace mqadmin` for groups: settings, members, offsets and resets."""

import json
import time
from datetime import datetime

from headrace.cli.rocketmq.options import BROKER, CLUSTER, TOPIC, Option, Options
from headrace.cli.rocketmq.remoting import AnswerRefused
from headrace.cli.rocketmq.verbs import (
    Asked,
    Row,
    Verb,
    by_queue,
    columns,
    local_time,
    row,
    rows,
    shown,
    whole,
)
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import print_line
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config_json
from headrace.wire.rocketmq.topic_names import RETRY_PREFIX

_VERSIONS = {513: "V5_5_0", 407: "V4_9_7"}
_MODES = {"CONSUME_PASSIVELY": "PUSH", "CONSUME_ACTIVELY": "PULL"}
_STATES = ("<64", "<32", "<4", "<20", "<20", "<19", "<18", "<0")


def _version(number: object) -> str:
    return _VERSIONS.get(number, str(number)) if isinstance(number, int) else str(number)


def update_group(asked: Asked) -> None:
    """Create a group's settings, or change them; options that are left out have defaults."""
    config = GroupConfig(
        asked.text("g"),
        consume_enabled=asked.flag("s", True),
        from_minimum_enabled=asked.flag("m"),
        broadcast_enabled=asked.flag("d"),
        ordered=asked.flag("o"),
        retry_queues=asked.number("q", 1),
        retries_max=asked.number("r", 16),
        broker_id=asked.number("i", 0),
        broker_id_when_slow=asked.number("w", 1),
    )
    fields = group_config_json(config)
    for address in asked.addresses():
        body = json.dumps(fields).encode()
        asked.remoting.ask(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
        print_line(f"create subscription group to {address} success.")
    print_line(f"SubscriptionGroupConfig{{{_settings(fields, ', ', '=')}}}")


_ORDER = (
    "groupName", "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable",
    "consumeMessageOrderly", "retryQueueNums", "retryMaxTimes", "brokerId",
    "whichBrokerWhenConsumeSlowly", "notifyConsumerIdsChangedEnable", "groupSysFlag",
    "consumeTimeoutMinute",
)  # fmt: skip


def _settings(fields: Row, between: str, equals: str, width: int = 0) -> str:
    return between.join(f"{name:<{width}}{equals}{shown(fields.get(name))}" for name in _ORDER)


def group_settings(asked: Asked) -> None:
    """Show a group's settings on each broker."""
    group = asked.text("g")
    for cluster, brokers in asked.clusters().items():
        for name, address in brokers:
            try:
                fields = asked.remoting.read(
                    address, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}
                )
            except AnswerRefused as error:
                if error.answer_code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise
                continue
            line = "=" * 29
            print_line(f"{line}{cluster}:{name}{line}")
            print_line(_settings(fields, "\n", "=  ", 40))


def delete_group(asked: Asked) -> None:
    """Delete a group's settings; -r true: its offsets, too."""
    group, cluster = asked.text("g"), asked.options.get("c")
    fields = {"groupName": group, "cleanOffset": asked.flag("r")}
    for address in asked.addresses():
        asked.remoting.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        where = f" in cluster [{cluster}]" if cluster else ""
        text = f"delete subscription group [{group}] from broker [{address}]{where} success."
        print_line(text)


# Members


def consumers(asked: Asked) -> None:
    """List the members of a group and its subscriptions."""
    group = asked.text("g")
    for _, address in _brokers(asked, group):
        found = asked.remoting.read(
            address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
        )
        columns(("<35", "<21", "<9", "<0"), "#ClientId", "#ClientAddr", "#Language", "#Version")
        for each in rows(found.get("connectionSet")):
            cells = each["clientId"], each["clientAddr"], each["language"]
            columns(("<35", "<21", "<9", "<0"), *cells, _version(each["version"]))
        print_line("")
        print_line("Below is subscription:")
        columns(("<19", "<0"), "#Topic", "#SubExpression")
        for topic, subscription in row(found.get("subscriptionTable")).items():
            columns(("<19", "<0"), topic, row(subscription).get("subString"))
        print_line("")
        print_line(f"ConsumeType: {found.get('consumeType')}")
        print_line(f"MessageModel: {found.get('messageModel')}")
        print_line(f"ConsumeFromWhere: {found.get('consumeFromWhere')}")


def _brokers(asked: Asked, group: str) -> list[tuple[str, str]]:
    """Return the brokers of a group: those of its retry topic, as of a RocketMQ cluster."""
    return asked.brokers_of(RETRY_PREFIX + group)


def producers(asked: Asked) -> None:
    """List the live producers of a group on the brokers of a topic."""
    number = 0
    for _, address in asked.brokers_of(asked.text("t")):
        found = asked.remoting.read(
            address, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": asked.text("g")}
        )
        for each in rows(found.get("connectionSet")):
            number += 1
            cells = each["clientId"], each["clientAddr"], each["language"]
            columns(
                ("<4", "<31", "<21", "<7", "<0"), f"{number:04}", *cells, _version(each["version"])
            )


# Offsets


def progress(asked: Asked) -> None:
    """Show a group's offsets and lag by queue; without -g: all groups."""
    if "g" in asked.options:
        _one_progress(asked, asked.text("g"))
    else:
        _all_progress(asked)


def _one_progress(asked: Asked, group: str) -> None:
    total = waiting = 0
    rate = 0.0
    columns(
        _STATES, "#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff",
        "#Inflight", "#LastTime",
    )  # fmt: skip
    for queue, state, tps in _states(asked, group, asked.options.get("t")):
        end, offset = whole(state["brokerOffset"]), whole(state["consumerOffset"])
        inflight = whole(state["pullOffset"]) - offset
        last = local_time(whole(state["lastTimestamp"])) or "N/A"
        cells = queue["topic"], queue["brokerName"], queue["queueId"]
        columns(_STATES, *cells, end, offset, end - offset, inflight, last)
        total, waiting, rate = total + end - offset, waiting + inflight, tps
    print_line("")
    print_line(f"Consume TPS: {rate:.2f}")
    print_line(f"Consume Diff Total: {total}")
    print_line(f"Consume Inflight Total: {waiting}")


def _states(asked: Asked, group: str, topic: str | None) -> list[tuple[Row, Row, float]]:
    """Return queue, state and rate of a group's queues. CommandError: it has no offsets."""
    found = []
    fields = {"consumerGroup": group} | ({} if topic is None else {"topic": topic})
    for _, address in _brokers(asked, group):
        stats = asked.remoting.read(address, RequestCode.GET_CONSUME_STATS, fields)
        tps = stats.get("consumeTps")
        rate = float(tps) if isinstance(tps, int | float) else 0.0
        found += [(queue, row(state), rate) for queue, state in by_queue(stats["offsetTable"])]
    if not found:
        raise CommandError(
            "CODE: 206  DESC: Not found the consumer group consume stats, because return offset"
            " table is empty, maybe the consumer not online"
        )
    return found


def _all_progress(asked: Asked) -> None:
    form = ("<64", "<6", "<23", "<5", "<14", "<7", "<0")
    columns(form, "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    listed = asked.remoting.read(asked.name_server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    names = listed.get("topicList")
    for name in names if isinstance(names, list) else []:
        if not str(name).startswith(RETRY_PREFIX):
            continue
        group = str(name).removeprefix(RETRY_PREFIX)
        members, version, kind, model = 0, "OFFLINE", "", ""
        for _, address in _brokers(asked, group):
            try:
                found = asked.remoting.read(
                    address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
                )
            except AnswerRefused:
                continue  # no member is online
            connections = rows(found.get("connectionSet"))
            members += len(connections)
            version = _version(connections[0]["version"])
            kind = _MODES.get(str(found.get("consumeType")), "")
            model = str(found.get("messageModel"))
        lag, rate = 0, 0.0
        try:
            for _, state, tps in _states(asked, group, None):
                lag += whole(state["brokerOffset"]) - whole(state["consumerOffset"])
                rate = tps
        except CommandError:
            pass  # it has no offsets
        columns(form, group, members, version, kind, model, int(rate), lag)


def reset_by_time(asked: Asked) -> None:
    """Move a group's offsets to a time: now, -1, ms since 1970, or yyyy-MM-dd#HH:mm:ss:SSS."""
    group, topic, text = asked.text("g"), asked.text("t"), asked.text("s")
    at_ms, force = _time(text), asked.flag("f", True)
    print_line(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}],"
        f" force[{shown(force)}], timestamp(string)[{text}], timestamp(long)[{at_ms}]"
    )
    _reset(asked, group, topic, at_ms, force)


def skip_messages(asked: Asked) -> None:
    """Move a group's offsets to the end of a topic's queues."""
    _reset(asked, asked.text("g"), asked.text("t"), -1, asked.flag("f", True))


def _time(text: str) -> int:
    if text == "now":
        return int(time.time() * 1000)
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        return int(datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").timestamp() * 1000)
    except ValueError:
        form = "now, -1, ms since 1970, or yyyy-MM-dd#HH:mm:ss:SSS"
        raise UsageError(f"option -s {text}: must be {form}") from None


def _reset(asked: Asked, group: str, topic: str, at_ms: int, force: bool) -> None:
    fields = {
        "topic": topic, "group": group, "timestamp": at_ms, "isForce": force, "queueId": -1,
        "offset": -1,
    }  # fmt: skip
    form = ("<40", "<40", "<40")
    columns(form, "#brokerName", "#queueId", "#offset")
    for _, address in asked.brokers_of(topic):
        found = asked.remoting.read(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        for queue, offset in by_queue(found["offsetTable"]):
            columns(form, queue["brokerName"], queue["queueId"], offset)


_GROUP = Option("g", "groupName", "The consumer group", required=True)
_RESET_GROUP = _GROUP._replace(name="group")
_FORCE = Option("f", "force", "Whether offsets may move forwards: true (default) or false")
_EITHER = (BROKER, CLUSTER)
GROUP_VERBS = (
    Verb(
        "updateSubGroup",
        update_group,
        Options(
            [
                _GROUP,
                Option("s", "consumeEnable", "Whether the group may consume, true by default"),
                Option("m", "consumeFromMinEnable", "Whether it may begin at the first message"),
                Option("d", "consumeBroadcastEnable", "Whether it may broadcast"),
                Option("o", "consumeMessageOrderly", "Whether it consumes in order"),
                Option("q", "retryQueueNums", "Queues of its retry topic, 1 by default"),
                Option("r", "retryMaxTimes", "Retries of a message, 16 by default"),
                Option("i", "brokerId", "The broker's id to consume from, 0 by default"),
                Option("w", "whichBrokerWhenConsumeSlowly", "The same if it is slow, 1"),
            ],
            _EITHER,
            ["-p", "-a", "--attributes"],
        ),
    ),
    Verb(
        "deleteSubGroup",
        delete_group,
        Options(
            [_GROUP, Option("r", "removeOffset", "Whether its offsets are deleted, too")], _EITHER
        ),
    ),
    Verb("getConsumerConfig", group_settings, Options([_GROUP])),
    Verb(
        "consumerConnection",
        consumers,
        Options([_GROUP._replace(name="consumerGroup")], unavailable=["-b"]),
    ),
    Verb(
        "producerConnection",
        producers,
        Options([Option("g", "producerGroup", "The producer group", required=True), TOPIC]),
    ),
    Verb(
        "consumerProgress",
        progress,
        Options(
            [_GROUP._replace(required=False), TOPIC._replace(name="topicName", required=False)],
            unavailable=["-s", "-c"],
        ),
    ),
    Verb(
        "resetOffsetByTime",
        reset_by_time,
        Options(
            [
                _RESET_GROUP,
                TOPIC,
                Option(
                    "s",
                    "timestamp",
                    "now, -1 for the end, ms since 1970, or yyyy-MM-dd#HH:mm:ss:SSS",
                    required=True,
                ),
                _FORCE,
            ],
            unavailable=["-c", "-b", "-q", "-o"],
        ),
    ),
    Verb(
        "skipAccumulatedMessage",
        skip_messages,
        Options([_RESET_GROUP, TOPIC, _FORCE], unavailable=["-c"]),
    ),
)
