"""The name server's key-value settings: PUT (100), GET (101), DELETE (102), list (219).

They are stored for RocketMQ's tools, which keep orders of topics and notes in them. The broker
itself does not read them.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.operations.permissions import AdminOperation
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.requests import Fields, InvalidField

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall

CHARACTERS_MAX = 200
"""Characters of a namespace and of a key at most; a value has 16 KiB at most."""
VALUE_CHARACTERS_MAX = 16 * 1024
ENTRIES_MAX = 10_000
_BETWEEN = "@"
"""Between namespace and key in a node's name: neither has it once it is quoted."""


def _node(namespace: str, key: str) -> str:
    for name, text in (("namespace", namespace), ("key", key)):
        if not 0 < len(text) <= CHARACTERS_MAX:
            raise InvalidField(f"field {name} has 1 to {CHARACTERS_MAX} characters")
    return _quoted(namespace) + _BETWEEN + _quoted(key)


def _quoted(text: str) -> str:
    return quote(text, safe="").replace(".", "%2E")


def put_config(call: "RemotingCall") -> None:
    """Answer PUT_KV_CONFIG (100) once the value is stored."""
    fields = Fields(call.command)
    node, value = _node(fields.text("namespace"), fields.text("key")), fields.text("value")
    if len(value) > VALUE_CHARACTERS_MAX:
        raise InvalidField(f"field value has more than {VALUE_CHARACTERS_MAX} characters")
    kept = call.broker.configs.values
    if kept.get(node) is None and sum(1 for _ in kept) >= ENTRIES_MAX:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{ENTRIES_MAX} settings are stored")
    call.require_admin(AdminOperation.ALTER_CLUSTER_CONFIGS)
    detail = {"namespace": fields.text("namespace"), "key": fields.text("key")}
    call.change(detail, kept.put(node, value), RemotingAnswer())


def get_config(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_KV_CONFIG (101)."""
    fields = Fields(call.command)
    namespace, key = fields.text("namespace"), fields.text("key")
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    value = call.broker.configs.values.get(_node(namespace, key))
    if value is None:
        text = f"No config item, Namespace: {namespace} Key: {key}"
        return RemotingAnswer(ResponseCode.QUERY_NOT_FOUND, {}, b"", text)
    return RemotingAnswer(fields={"value": value})


def delete_config(call: "RemotingCall") -> None:
    """Answer DELETE_KV_CONFIG (102); one that does not exist is deleted, too."""
    fields = Fields(call.command)
    namespace, key = fields.text("namespace"), fields.text("key")
    node = _node(namespace, key)
    call.require_admin(AdminOperation.ALTER_CLUSTER_CONFIGS)
    removed = call.broker.configs.values.remove(node)
    call.change({"namespace": namespace, "key": key}, removed, RemotingAnswer())


def list_configs(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_KVLIST_BY_NAMESPACE (219) with the values of a namespace by key."""
    namespace = Fields(call.command).text("namespace")
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    begin = _quoted(namespace) + _BETWEEN
    kept = call.broker.configs.values
    table: dict[str, FastJson] = {
        unquote(node.removeprefix(begin)): kept.get(node)
        for node in sorted(kept)
        if node.startswith(begin)
    }
    if not table:
        text = f"No config item, Namespace: {namespace}"
        return RemotingAnswer(ResponseCode.QUERY_NOT_FOUND, None, b"", text)
    return RemotingAnswer(body=encode_body({"table": table}))
