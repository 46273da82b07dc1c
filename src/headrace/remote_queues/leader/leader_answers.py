"""Events that answer a home's questions, and refusals as events have them."""

from headrace.model.errors import HeadraceError
from headrace.queues.port import Got
from headrace.queues.refusals import QUEUE, RefusalKind, Refused
from headrace.remote_queues.messages import Get, GotMessage


def not_led() -> Refused:
    """Return the refusal of calls on a queue that this broker does not lead."""
    return Refused(RefusalKind.NOT_FOUND, QUEUE, "the queue is not led by this broker")


def got_message(call: Get, got: Got | None, error: HeadraceError | None) -> GotMessage:
    """Return the answer of a get: a message, or an error, or neither."""
    refused = error if isinstance(error, Refused) or error is None else _broken(error)
    if got is None:
        return GotMessage(call.queue, call.request, 0, (), False, 0, 0, refused)
    (position,), messages, _, redelivered, returns = got.deliveries
    count = returns[0] if returns else 0
    return GotMessage(
        call.queue, call.request, position, messages, redelivered, count, got.ready, None
    )


def _broken(error: HeadraceError) -> Refused:
    return Refused(RefusalKind.BROKEN, QUEUE, str(error))
