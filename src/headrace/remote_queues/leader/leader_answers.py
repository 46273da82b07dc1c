"""Events that answer a home's questions, and refusals as events have them."""

from headrace.model.errors import HeadraceError
from headrace.queues.port import Got, QueueInfo
from headrace.queues.refusals import QUEUE, RefusalKind, Refused
from headrace.remote_queues.messages import (
    Call,
    CloseIfEmpty,
    Consume,
    Consuming,
    Counted,
    Event,
    Get,
    GotMessage,
    Info,
    Publish,
    Purge,
    PurgeEnded,
    Stored,
)


def refusal_of(call: Call) -> Event | None:
    """Return the answer of a call on a queue that this broker does not lead; None: it has none."""
    match call:
        case Publish(queue=queue, first=first, messages=messages):
            return Stored(queue, first, range(first, first + len(messages)))
        case Consume(queue=queue, consumer=key):
            return Consuming(queue, key, _not_led())
        case Get():
            return got_message(call, None, _not_led())
        case Purge():
            return purge_ended(call, _not_led())
        case Info(queue=queue, request=request) | CloseIfEmpty(queue=queue, request=request):
            return Counted(queue, request, QueueInfo(0, 0, 0, 0))
        case _:
            return None


def _not_led() -> Refused:
    return Refused(RefusalKind.NOT_FOUND, QUEUE, "the queue is not led by this broker")


def purge_ended(call: Purge, found: int | Refused) -> PurgeEnded:
    """Return the answer of a purge: the number of settled messages, or the refusal."""
    settled, refused = (0, found) if isinstance(found, Refused) else (found, None)
    return PurgeEnded(call.queue, call.request, settled, refused)


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
