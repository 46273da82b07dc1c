"""Requests of operators that a consumer answers: offsets (223), state (307), a consumption (309).

The broker asks the client over the connection of its heartbeats, and passes the answer on.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.administration.message_queries import viewed_message
from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.model.errors import Malformed
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, decode_body, encode_body
from headrace.wire.rocketmq.message_ids import physical_offset_of
from headrace.wire.rocketmq.requests import Fields

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall, RemotingClientSide
    from headrace.ports.callbacks import Done

STATUS_SECONDS = 5.0
"""Seconds for which a client may take to tell its offsets."""
RUNNING_SECONDS = 10.0
"""Seconds for which a client may take to tell its state with its threads' stacks, or to consume."""


def running_info(call: "RemotingCall") -> None:
    """Answer GET_CONSUMER_RUNNING_INFO (307) with the client's own answer."""
    group = Fields(call.command).text("consumerGroup")
    call.broker.require_group(call.identity, group, Operation.DESCRIBE)
    client = _client_of(call, group)
    call.work(_relayed(call, client, dict(call.command.fields or {}), bytes(call.command.body)))


def consume_directly(call: "RemotingCall") -> None:
    """Answer CONSUME_MESSAGE_DIRECTLY (309): a consumer's result for a message that it is given.

    Its offsets stay: the message is consumed once more than it would be.
    """
    fields = Fields(call.command)
    group, message_id = fields.text("consumerGroup"), fields.text("msgId")
    call.broker.require_group(call.identity, group)
    try:
        offset = physical_offset_of(message_id)
    except Malformed as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
    call.work(_consumed(call, _client_of(call, group), offset))


async def _consumed(
    call: "RemotingCall", client: "RemotingClientSide", physical_offset: int
) -> RemotingAnswer:
    message = await viewed_message(call, physical_offset)
    fields = {**(call.command.fields or {}), "brokerName": call.broker.name}
    return await _relayed(call, client, fields, message)


def _client_of(call: "RemotingCall", group: str) -> "RemotingClientSide":
    """Return the connection of the member that `clientId` names. Raises RequestRefused."""
    client_id = Fields(call.command).text("clientId")
    for member in call.broker.members.members(group):
        if member.client_id == client_id:
            return member.connection
    text = f"The Consumer <{group}> <{client_id}> not online"
    raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)


async def _relayed(
    call: "RemotingCall", client: "RemotingClientSide", fields: dict[str, str], body: bytes
) -> RemotingAnswer:
    code = RequestCode(call.command.code)
    answer = await _asked(client, code, fields, body, RUNNING_SECONDS)
    return RemotingAnswer(answer.code, answer.fields, bytes(answer.body), answer.remark)


async def _asked(
    client: "RemotingClientSide",
    code: RequestCode,
    fields: dict[str, str],
    body: bytes,
    seconds: float,
) -> RemotingCommand:
    """Return a client's answer to a request. RequestRefused: it did not answer."""

    def ask(done: "Done[RemotingCommand | BaseException]") -> None:
        client.ask(code, fields, body, seconds, done)

    return await called_back(ask)


def consumer_status(call: "RemotingCall") -> None:
    """Answer INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): the offsets in the memory of members.

    Of all members, or of the one that `clientAddr`, a client id, names.
    """
    fields = Fields(call.command)
    topic, group = fields.text("topic"), fields.text("group")
    wanted = fields.text("clientAddr", "")
    call.broker.require_group(call.identity, group, Operation.DESCRIBE)
    clients = {
        member.client_id: member.connection
        for member in call.broker.members.members(group)
        if wanted in ("", member.client_id)
    }
    if not clients:
        text = f"No Any Consumer online in the consumer group: [{group}]"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, text)
    call.work(_statuses(clients, {"topic": topic, "group": group}))


async def _statuses(
    clients: dict[str, "RemotingClientSide"], fields: dict[str, str]
) -> RemotingAnswer:
    ask = partial(
        _asked,
        code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        fields=fields,
        body=b"",
        seconds=STATUS_SECONDS,
    )
    answers = await asyncio.gather(*map(ask, clients.values()), return_exceptions=True)
    table: dict[str, FastJson] = {}
    for client_id, answer in zip(clients, answers, strict=True):
        if isinstance(answer, RequestRefused):
            continue  # as RocketMQ: the table has the clients that have answered
        if isinstance(answer, BaseException):
            raise answer
        offsets = _offsets(answer)
        if offsets is not None:
            table[client_id] = offsets
    return RemotingAnswer(body=encode_body({"consumerTable": table, "messageQueueTable": {}}))


def _offsets(answer: RemotingCommand) -> FastJson:
    """Return the offsets by queue in a client's answer, None if it has none."""
    try:
        body = decode_body(answer.body) if answer.body else None
    except Malformed:
        return None
    found = body.get("messageQueueTable") if isinstance(body, dict) else None
    return found if isinstance(found, Keyed | dict) else None
