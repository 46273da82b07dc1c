"""From a command's code to the function that answers it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq import groups, offsets, routes, sends
from headrace.frontends.rocketmq.administration.handlers import ADMIN_HANDLERS
from headrace.frontends.rocketmq.answers import RemotingAnswer
from headrace.frontends.rocketmq.held.recalls import recall
from headrace.frontends.rocketmq.held.send_back import send_back
from headrace.frontends.rocketmq.held.transactions import end_transaction
from headrace.frontends.rocketmq.pulling.pulls import pull
from headrace.frontends.rocketmq.replies import reply
from headrace.model.errors import HeadraceError
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.signed_requests import SignedRequests

Handler = Callable[["RemotingCall"], RemotingAnswer | None]
"""Answers a request: by its result, or later where that is None. Raises HeadraceError."""

HANDLERS: dict[int, Handler] = {
    RequestCode.SEND_MESSAGE: sends.send,
    RequestCode.SEND_MESSAGE_V2: sends.send,
    RequestCode.SEND_BATCH_MESSAGE: sends.send,
    RequestCode.SEND_REPLY_MESSAGE: reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: reply,
    RequestCode.PULL_MESSAGE: pull,
    RequestCode.LITE_PULL_MESSAGE: pull,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.update_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.search_offset,
    RequestCode.GET_MAX_OFFSET: offsets.max_offset,
    RequestCode.GET_MIN_OFFSET: offsets.min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.earliest_time,
    RequestCode.HEART_BEAT: groups.heartbeat,
    RequestCode.UNREGISTER_CLIENT: groups.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: groups.consumer_list,
    RequestCode.LOCK_BATCH_MQ: groups.lock_queues,
    RequestCode.UNLOCK_BATCH_MQ: groups.unlock_queues,
    RequestCode.CHECK_CLIENT_CONFIG: groups.check_client,
    RequestCode.CONSUMER_SEND_MSG_BACK: send_back,
    RequestCode.END_TRANSACTION: end_transaction,
    RequestCode.RECALL_MESSAGE: recall,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.get_route,
    **ADMIN_HANDLERS,
}


def handle(call: "RemotingCall", signed: "SignedRequests") -> None:
    """Answer a request, now or later; errors of the broker and of the request are answers.

    `signed` authenticates the request first.
    """
    code = call.command.code
    call.broker.counts.requests[code if code in HANDLERS else -1] += 1
    handler = HANDLERS.get(code)
    if handler is None:
        remark = f" request type {code} not supported"
        unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        call.answer(RemotingAnswer(unknown, None, b"", remark))
        return
    try:
        identity = signed.identity(call.identity, call.command)
        if identity is not call.identity:
            call.peer = call.peer._replace(identity=identity)
        answer = handler(call)
    except HeadraceError as error:
        call.fail(error)
    else:
        if answer is not None:
            call.answer(answer)
