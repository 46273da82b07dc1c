"""AmqpAdministration (key 20000, v0): vhosts, users, permissions, queues and connections of AMQP.

Ours, beside Kafka's APIs: served and told of where there is a listener of AMQP. What is only listed
asks DESCRIBE of the cluster, what is changed ALTER; the audit log has a line for each change, as of
Kafka's APIs (`connection/changes.py`).
"""

from headrace.frontends.kafka.authentication.authorisation import (
    ALTER_CLUSTER,
    DESCRIBE_CLUSTER,
    require,
)
from headrace.frontends.kafka.connection.changes import Change, tell_one
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka.hot.amqp_administration import (
    AmqpAnswer,
    AmqpQuestion,
    decode_request,
    encode_response,
)

_SECRETS = frozenset({"hash"})
"""Fields of questions that no log shows."""
_SHOWN_CHARACTERS = 200
_TOLD_CHARACTERS = 2000


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer when it is done."""
    asked = decode_request(body)
    # The context is the next request's as soon as this one waits.
    own = RequestContext(
        context.broker,
        context.coordinators,
        context.controller,
        context.api_key,
        context.version,
        context.client_id,
        context.identity,
        context.shared,
    )
    pending = Pending(alone=True)

    async def answer() -> None:
        try:
            response = await _answered(own, asked)
        except Exception as error:  # noqa: BLE001 - the connection is told to end, and says why
            pending.fail(error)
            return
        pending.resolve(encode_response(response))

    context.shared.spawn(answer())
    return pending


async def _answered(context: RequestContext, asked: AmqpQuestion) -> AmqpAnswer:
    administration = context.shared.amqp
    changes, code = False, ErrorCode.NONE
    try:
        if administration is None:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, "this broker has no listener of AMQP: ask another"
            )
        changes = administration.changes(asked.operation)
        require(context, ALTER_CLUSTER if changes else DESCRIBE_CLUSTER)
        return AmqpAnswer(0, None, await administration.ask(asked.operation, asked.question))
    except ApiError as error:
        code = error.code
        return AmqpAnswer(code, _told(error.message), None)
    finally:
        if changes:
            tell_one(context, Change(code, {"operation": asked.operation, "asked": _shown(asked)}))


def _told(message: str | None) -> str | None:
    """Return a message that an answer has room for: it may repeat whatever was asked."""
    if message is None:
        return None
    return message[:_TOLD_CHARACTERS].encode("utf-8", "backslashreplace").decode()


def _shown(asked: AmqpQuestion) -> str:
    shown = (
        f"{name}={'***' if name in _SECRETS else value}" for name, value in asked.question.items()
    )
    return ",".join(shown)[:_SHOWN_CHARACTERS]
