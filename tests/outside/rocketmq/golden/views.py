"""Recorded frames as facts that two recordings of the same programs have in common.

Times, ports, ids and everything else that differs between two runs of one broker is masked. A fact
is a path and a text: `code`, `remark`, `ext.topic`, `body.brokerDatas[].cluster`, `message.flag`.
"""

import re
from collections.abc import Iterator, Mapping

from headrace.model.errors import Malformed
from headrace.wire.rocketmq.batch_bodies import decode_batch
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, decode_body
from headrace.wire.rocketmq.properties import decode_properties
from headrace.wire.rocketmq.sent_messages import plain_body
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages
from tests.outside.rocketmq.golden.recording import RESPONSE, Entry

Facts = Mapping[str, str]

VOLATILE = "*"
VOLATILE_FIELDS = frozenset(
    {
        "bornTimestamp", "g", "storeTimestamp", "msgId", "offsetMsgId", "transactionId",
        "clientID", "commitLogOffset", "tranStateTableOffset", "popTime", "bornTime", "extraInfo",
        "startOffsetInfo", "msgOffsetInfo", "subVersion", "timestamp", "consumeTimestamp", "t",
        "recallHandle", "clientHost", "Signature", "totalGroupNum", "wipeTopicCount",
        "addTopicCount",
    }
)  # fmt: skip
PLACES = frozenset(
    {
        "queueId", "e", "queueOffset", "offset", "commitOffset", "nextBeginOffset", "minOffset",
        "maxOffset", "d", "defaultTopicQueueNums",
    }
)  # fmt: skip
"""Fields that follow from a client's choice of a queue, which is random."""
OWN_FIELD = "ReqT"
"""A field that Java clients add to some of their requests, whatever the broker."""
PROPERTIES = frozenset({"i", "properties"})
VOLATILE_PROPERTIES = frozenset(
    {"INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "REAL_QID", "TIMER_ROLL_TIMES"}
)
MESSAGES_IN = (
    RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.QUERY_MESSAGE,
)  # fmt: skip
BATCH = RequestCode.SEND_BATCH_MESSAGE
MAPS = ("Table", "groupTopicMap", "consumeStatsList[]")
"""Members of bodies whose own members have names of topics, groups or clients."""
REMARK_CHARACTERS = 60
TEXT_CHARACTERS = 120
OWN_BROKER, GOLDEN_BROKER = "headrace-0", "broker-a"

_NUMBER = re.compile(r"\d{3,}")
_HEX = re.compile(r"\b[0-9A-Fa-f]{16,}\b")
_NAMES = re.compile(r"^(?:%\w+%)?(?:Sc|Raw|Adm|CG_|PG_|Go)\w*(?:@.*)?$|^(?:TBW102|.*@.*)$")
_HOST = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
_EXCEPTION = re.compile(r"(?:java|org|com)\.[\w.]+(?:Exception|Error)\b")
_PROPERTY = re.compile(r"\w+=")
_OWN_PART = re.compile(r"(?:/.*|(?<=_)\d+)$")
"""A path, or the number of a delay level, at the end of a name."""
_ADDRESS = re.compile(r"^[\d.]+:\d+$")


def mask(text: str) -> str:
    """Return a text without long numbers, ids and the broker's name."""
    text = _HOST.sub("HOST", text.replace(OWN_BROKER, GOLDEN_BROKER))
    return _NUMBER.sub("#", _HEX.sub("~", text))


def facts(entry: Entry, *, has_places: bool) -> dict[str, str]:
    """Return what a frame says. Without `has_places`: whatever queue the client has chosen."""
    command = entry.command
    found = {"is": "response" if command.is_response else "request"}
    if command.is_one_way:
        found["is"] = "one-way request"
    if command.is_response:
        found["code"] = _code(command.code)
        if command.remark:
            found["remark"] = _remark(command.remark)
    for name, value in (command.fields or {}).items():
        if name == OWN_FIELD:
            continue
        is_physical = entry.request == RequestCode.CONSUMER_SEND_MSG_BACK and name == "offset"
        found[f"ext.{name}"] = VOLATILE if is_physical else _field(name, value, has_places)
    found.update(_body(entry, command))
    return found


def _remark(text: str) -> str:
    """Return a remark on one line, of a Java exception its class alone."""
    exception = _EXCEPTION.match(text)
    return exception[0] if exception else mask(" ".join(text.split()))[:REMARK_CHARACTERS]


def messages(entry: Entry, *, has_places: bool) -> list[dict[str, str]]:
    """Return what each message in a response says, or in a question about a transaction."""
    command = entry.command
    if not _has_messages(entry, command):
        return []
    try:
        return [_message(each, has_places) for each in decode_messages(bytes(command.body))]
    except Malformed:
        return [{"message": "malformed"}]


def _has_messages(entry: Entry, command: RemotingCommand) -> bool:
    """Whether a frame's body has stored messages."""
    if command.is_response:
        return entry.request in MESSAGES_IN
    return entry.direction == RESPONSE and entry.request == RequestCode.CHECK_TRANSACTION_STATE


def _code(code: int) -> str:
    return ResponseCode(code).name if code in ResponseCode.__members__.values() else str(code)


def _field(name: str, value: str, has_places: bool) -> str:
    if name in VOLATILE_FIELDS:
        return VOLATILE
    if name in PLACES and not has_places:
        return VOLATILE
    if name in PROPERTIES:
        return " ".join(sorted(part.split("\x01")[0] for part in value.split("\x02") if part))
    return mask(value)


def _body(entry: Entry, command: RemotingCommand) -> Iterator[tuple[str, str]]:
    body = bytes(command.body)
    if not body:
        return
    if _has_messages(entry, command):
        yield "body", "messages"
    elif not command.is_response and entry.request == RequestCode.HEART_BEAT:
        return  # which groups have started by now is the client's matter
    elif not command.is_response and entry.request == BATCH:
        yield "body", f"{len(decode_batch(body))} messages"
    elif not command.is_response and entry.request in (
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2,
    ):  # fmt: skip
        yield "body", mask(body.decode("latin1"))[:TEXT_CHARACTERS]
    else:
        try:
            value = decode_body(body)
        except (Malformed, UnicodeDecodeError):
            shown = mask(body.decode("utf-8", "replace"))[:TEXT_CHARACTERS]
            yield "body", "properties" if _PROPERTY.match(shown) else shown
        else:
            yield from sorted(_shape("body", value))


def _shape(path: str, value: FastJson) -> Iterator[tuple[str, str]]:
    """Yield the paths of a value with the types there; members of a list have one path."""
    match value:
        case dict() if value:
            for name, member in value.items():
                shown = VOLATILE if path.endswith(MAPS) else _member(name)
                yield from _shape(f"{path}.{shown}", member)
        case Keyed(pairs) if pairs:
            for key, member in pairs:
                yield from _shape(f"{path}<key>", key)
                yield from _shape(f"{path}<>", member)
        case list() if value:
            for member in value:
                yield from _shape(f"{path}[]", member)
        case _:
            yield path, type(value).__name__


def _member(name: str) -> str:
    """Return the name of an object's member; * for a topic, a group, a client or an address."""
    if _NAMES.match(name) or _ADDRESS.match(name) or name.isdigit():
        return "*"
    return _OWN_PART.sub("*", mask(name))


def _message(message: PulledMessage, has_places: bool) -> dict[str, str]:
    body = plain_body(message.body, message.system_flag)
    found = {
        "message.topic": mask(message.topic.decode()),
        "message.flag": str(message.flag),
        "message.system_flag": hex(message.system_flag),
        "message.reconsume_times": str(message.reconsume_times),
        "message.bytes": str(len(body)),
        "message.body": mask(body.decode("latin1"))[:TEXT_CHARACTERS],
    }
    if has_places:
        found["message.queue"] = f"{message.queue_id} {message.queue_offset}"
    for name, value in decode_properties(message.properties).items():
        shown = VOLATILE if name in VOLATILE_PROPERTIES else mask(value)
        found[f"message.properties.{name}"] = shown
    return found
