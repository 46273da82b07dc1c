"""The files in a broker's `config` directory.

consumerOffset.json      {"offsetTable":{"topic@group":{0:5,1:7}}, "resetOffsetTable":{…}, …}
delayOffset.json         {"offsetTable":{3:17}, …}      by delay level
topics.json              {"topicConfigTable":{"topic":{…}}, …}
subscriptionGroup.json   {"subscriptionGroupTable":{"group":{…}}, …}
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, decode_body
from headrace.wire.rocketmq.group_configs import GroupConfig, group_config
from headrace.wire.rocketmq.topic_configs import INHERITED, TopicConfig, stored_topic_config

OFFSETS_FILE = "consumerOffset.json"
DELAYS_FILE = "delayOffset.json"
TOPICS_FILE = "topics.json"
GROUPS_FILE = "subscriptionGroup.json"


class StoredOffset(NamedTuple):
    """A group's offset of a queue: that of the next message."""

    group: str
    topic: str
    queue: int
    offset: int


def decode_offsets(text: str) -> list[StoredOffset]:
    """Decode a consumerOffset.json. Raises Malformed.

    A reset that the group's client has not heard of yet replaces the offset.
    """
    body = _body(OFFSETS_FILE, text)
    found = {entry[:3]: entry for entry in _offsets(body, "offsetTable", required=True)}
    found |= {entry[:3]: entry for entry in _offsets(body, "resetOffsetTable", required=False)}
    return list(found.values())


def _offsets(body: Mapping[str, FastJson], table: str, *, required: bool) -> Iterator[StoredOffset]:
    for name, queues in sorted(_table(OFFSETS_FILE, body, table, required=required).items()):
        topic, separator, group = name.partition("@")
        if not separator or "@" in group:
            raise _bad(OFFSETS_FILE, f"{name!r} is not of the form topic@group")
        for queue, offset in _numbers(OFFSETS_FILE, name, queues):
            yield StoredOffset(group, topic, queue, offset)


def decode_delays(text: str) -> dict[int, int]:
    """Decode a delayOffset.json: the next queue offset by delay level. Raises Malformed."""
    body = _body(DELAYS_FILE, text)
    return dict(_numbers(DELAYS_FILE, "offsetTable", body.get("offsetTable", {})))


def decode_topics(text: str) -> dict[str, TopicConfig]:
    """Decode a topics.json: settings by topic, numbers of queues as given. Raises Malformed."""
    table = _table(TOPICS_FILE, _body(TOPICS_FILE, text), "topicConfigTable", required=True)
    found = {}
    for name, value in sorted(table.items()):
        if not isinstance(value, dict):
            raise _bad(TOPICS_FILE, f"the settings of {name!r} are not an object")
        config = stored_topic_config(value)
        if not config.read_queues or not config.write_queues:
            raise _bad(TOPICS_FILE, f"topic {name!r} has no number of queues")
        found[name] = config
    return found


def is_inherited(config: TopicConfig) -> bool:
    """Return whether a topic is one that sends take settings from: of a broker, of a cluster."""
    return bool(config.permission & INHERITED)


def decode_groups(text: str) -> dict[str, GroupConfig]:
    """Decode a subscriptionGroup.json: settings by group. Raises Malformed."""
    table = _table(GROUPS_FILE, _body(GROUPS_FILE, text), "subscriptionGroupTable", required=True)
    found = {}
    for name, value in sorted(table.items()):
        if not isinstance(value, dict):
            raise _bad(GROUPS_FILE, f"the settings of {name!r} are not an object")
        config = group_config({"groupName": name, **value})
        found[name] = config
    return found


def _body(file: str, text: str) -> Mapping[str, FastJson]:
    try:
        body = decode_body(text.encode("utf-8", "replace"))
    except Malformed as error:
        raise _bad(file, str(error)) from None
    if not isinstance(body, dict):
        raise _bad(file, "it is not an object")
    return body


def _table(
    file: str, body: Mapping[str, FastJson], name: str, *, required: bool
) -> Mapping[str, FastJson]:
    table = body.get(name)
    if table is None and not required:
        return {}
    if not isinstance(table, dict):
        raise _bad(file, f"it has no {name}")
    return table


def _numbers(file: str, name: str, value: FastJson) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a map from numbers to numbers, whose keys may be text."""
    if not isinstance(value, Keyed | dict):
        raise _bad(file, f"{name} is not a map")
    pairs = value.pairs if isinstance(value, Keyed) else tuple(value.items())
    for key, number in pairs:
        if isinstance(key, str) and key.isascii() and key.isdigit():
            key = int(key)
        if type(key) is not int or type(number) is not int:
            raise _bad(file, f"{name} has a key or a value that is no number")
        yield key, number


def _bad(file: str, why: str) -> Malformed:
    return Malformed(f"not a {file}: {why}")
