"""AmqpAdministration (key 20000, v0): operations of other protocols, as AMQP's vhosts and queues.

Headrace's own API: served and advertised where a listener speaks a protocol that has operations
(`operations/registry.py`). An operation that only lists needs DESCRIBE of the cluster, any other
ALTER; the audit log has a line for each change.
"""

from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ApiError
from headrace.model.invariant import InvariantError
from headrace.net.pending import Pending
from headrace.operations.permissions import Caller, Surface
from headrace.wire.kafka.hot.administration import (
    OperationResponse,
    decode_request,
    encode_response,
)

_TOLD_CHARACTERS = 2000


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Call the operation that an AmqpAdministration request names; answer with its result."""
    asked = decode_request(body)
    # The context serves the next request while the operation runs.
    operations = context.shared.operations
    if operations is None:
        raise InvariantError("a broker that serves this API has operations")
    caller = Caller(context.identity, Surface.KAFKA, context.api_key.name)
    pending = Pending(alone=True)

    async def answered() -> OperationResponse:
        try:
            result = await operations.call_json(caller, asked.operation, asked.question)
        except ApiError as error:
            return OperationResponse(error.code, _told(error.message), None)
        return OperationResponse(0, None, result)

    async def answer() -> None:
        try:
            response = await answered()
        except Exception as error:  # noqa: BLE001 - the connection is told to end, and says why
            pending.fail(error)
            return
        pending.resolve(encode_response(response))

    context.shared.spawn(answer())
    return pending


def _told(message: str | None) -> str | None:
    """Return a message cut to the size of an answer: it may repeat the request's text."""
    if message is None:
        return None
    return message[:_TOLD_CHARACTERS].encode("utf-8", "backslashreplace").decode()
