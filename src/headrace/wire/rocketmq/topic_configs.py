"""A topic's settings (TopicConfig), as requests, answers and the metadata store have them."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.wire.rocketmq.fastjson import FastJson
from headrace.wire.rocketmq.requests import Fields, InvalidField

READABLE, WRITABLE = 4, 2
READ_WRITE = READABLE | WRITABLE
INHERITED = 1
"""The bits of a topic's permission: read, write, and taken over by topics that a send creates."""
ALL_QUEUES = 0
"""A number of queues that follows the topic's partitions, also those that Kafka's clients add."""
_SINGLE_TAG = "SINGLE_TAG"


class TopicConfig(NamedTuple):
    """A topic's settings, with the values of a topic that no one has configured."""

    read_queues: int = ALL_QUEUES
    """The queues below this number may be pulled."""
    write_queues: int = ALL_QUEUES
    """The queues below this number are those to which producers send."""
    permission: int = READ_WRITE
    filter_type: str = _SINGLE_TAG
    system_flag: int = 0
    ordered: bool = False
    attributes: Mapping[str, FastJson] = {}
    grown: tuple[tuple[int, int], ...] = ()
    """Growths of `read_queues`, oldest first: the first queue that was added, and when, in ms since
    1970. A queue that was hidden is new to the groups of that time."""
    made: bool = False
    """Whether a client of this protocol has created the topic; older topics do not say it."""

    @property
    def is_readable(self) -> bool:
        """Whether consumers may pull."""
        return bool(self.permission & READABLE)

    def read(self, partitions: int) -> int:
        """Return how many queues of a topic with these partitions may be pulled."""
        return min(self.read_queues or partitions, partitions)

    def written(self, partitions: int) -> int:
        """Return to how many queues of a topic with these partitions producers send."""
        return min(self.write_queues or partitions, partitions)

    def added_ms(self, queue_id: int) -> int:
        """Return when a queue was last shown again to consumers; 0: it was never hidden."""
        return max((at for first, at in self.grown if queue_id >= first), default=0)


def asked_topic_config(fields: Fields) -> TopicConfig:
    """Read the settings that request 17 asks for. Raises InvalidField.

    `attributes` are the changes of this request, such as `{"+message.type": "FIFO"}`.
    """
    attributes: dict[str, FastJson] = {}
    for change in filter(None, fields.text("attributes", "").split(",")):
        name, _, value = change.partition("=")
        attributes[name] = value
    config = TopicConfig(
        fields.number("readQueueNums"),
        fields.number("writeQueueNums"),
        fields.number("perm", READ_WRITE),
        fields.text("topicFilterType", _SINGLE_TAG),
        fields.number("topicSysFlag", 0),
        fields.boolean("order"),
        attributes,
    )
    for noun, count in (("read", config.read_queues), ("write", config.write_queues)):
        if count < 1:
            raise InvalidField(f"a topic has at least one {noun} queue, not {count}")
    return _checked(config)


def _checked(config: TopicConfig) -> TopicConfig:
    if not 0 <= config.permission <= READ_WRITE | INHERITED:
        raise InvalidField(f"a topic's permission is a sum of 4, 2 and 1, not {config.permission}")
    return config


def changed_topic_config(
    present: TopicConfig, asked: TopicConfig, partitions: int, now_ms: int
) -> TopicConfig:
    """Return a topic's settings after request 17, for a topic that has these partitions by now.

    `present` belongs to the partitions before the change only through its explicit numbers.
    """
    read = ALL_QUEUES if asked.read_queues >= partitions else asked.read_queues
    write = ALL_QUEUES if asked.write_queues >= partitions else asked.write_queues
    attributes = dict(present.attributes)
    for name, value in asked.attributes.items():
        if name.startswith("-"):
            attributes.pop(name[1:], None)
        else:
            attributes[name.removeprefix("+")] = value
    before = present.read(partitions)
    grown = present.grown
    if asked.read_queues > before:
        grown = (*(each for each in grown if each[0] < before), (before, now_ms))
    return asked._replace(
        read_queues=read,
        write_queues=write,
        attributes=attributes,
        grown=grown,
        made=present.made,
    )


def topic_config_json(name: str, config: TopicConfig, partitions: int) -> dict[str, FastJson]:
    """Return the settings of a topic with these partitions as RocketMQ writes them."""
    return {
        "attributes": dict(config.attributes),
        "order": config.ordered,
        "perm": config.permission,
        "readQueueNums": config.read(partitions),
        "topicFilterType": config.filter_type,
        "topicName": name,
        "topicSysFlag": config.system_flag,
        "writeQueueNums": config.written(partitions),
    }


# In the metadata store


def stored_topic_config(value: Mapping[str, FastJson]) -> TopicConfig:
    """Read stored settings. Raises InvalidField."""

    def number(name: str, default: int) -> int:
        found = value.get(name, default)
        if type(found) is not int or found < 0:
            raise InvalidField(f"{name} of a topic's settings is not a number")
        return found

    attributes, grown = value.get("attributes"), value.get("grown")
    pairs = [
        (pair[0], pair[1])
        for pair in (grown if isinstance(grown, list) else ())
        if isinstance(pair, list) and len(pair) == 2
    ]
    return _checked(
        TopicConfig(
            number("readQueueNums", ALL_QUEUES),
            number("writeQueueNums", ALL_QUEUES),
            number("perm", READ_WRITE),
            str(value.get("topicFilterType") or _SINGLE_TAG),
            number("topicSysFlag", 0),
            value.get("order") is True,
            attributes if isinstance(attributes, dict) else {},
            tuple((first, at) for first, at in pairs if type(first) is int and type(at) is int),
            value.get("made") is True,
        )
    )


def stored_topic_config_json(config: TopicConfig) -> dict[str, FastJson]:
    """Return settings as they are stored, with numbers of queues that may be ALL_QUEUES."""
    grown: list[FastJson] = [[first, at] for first, at in config.grown]
    return {
        "attributes": dict(config.attributes),
        "grown": grown,
        "made": config.made,
        "order": config.ordered,
        "perm": config.permission,
        "readQueueNums": config.read_queues,
        "topicFilterType": config.filter_type,
        "topicSysFlag": config.system_flag,
        "writeQueueNums": config.write_queues,
    }
