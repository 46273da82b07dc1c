"""Building kio's response entities without naming a version: what a version lacks is left out."""

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from functools import cache
from sys import modules
from typing import Any
from uuid import UUID

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka import kio_codec

Entity = Any
Make = Callable[..., Entity]

NO_THROTTLE = timedelta(0)
NO_UUID = UUID(int=0)
OPERATIONS_UNKNOWN = -(1 << 31)
"""Authorized operations where nobody asked for them, or nobody authorises."""


def maker(context: RequestContext) -> Make:
    """Return `make(class_name, **fields)` for responses of the request's API and version.

    `make(None, …)` is the response itself; a throttle time of 0 is put in by itself.
    """
    return _maker(int(context.api_key), context.version)


@cache
def _maker(api_key: int, version: int) -> Make:
    response = kio_codec.response_type(api_key, version)
    module = modules[response.__module__]
    known: dict[type[Entity], frozenset[str]] = {}

    def make(class_name: str | None, **values: object) -> Entity:
        entity: type[Entity] = response if class_name is None else getattr(module, class_name)
        names = known.get(entity)
        if names is None:
            names = known[entity] = frozenset(field.name for field in fields(entity))
        values.setdefault("throttle_time", NO_THROTTLE)
        return entity(**{name: value for name, value in values.items() if name in names})

    return make


def uuid_of(topic_id: bytes | None) -> UUID:
    """Return a topic's 16 bytes as entities have them; None: no topic."""
    return NO_UUID if topic_id is None else UUID(bytes=topic_id)


def milliseconds(number: int) -> timedelta:
    """Return a duration as entities have them."""
    return timedelta(milliseconds=number)


def error_fields(error: ApiError | None) -> dict[str, object]:
    """Return `error_code` and `error_message` of one item's outcome."""
    if error is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    return {"error_code": error.code, "error_message": error.message}


def timeout_seconds(request: Entity) -> float | None:
    """Return the seconds the client would have us try at most; None: until it is done.

    0 and less ask not to wait at all, which is no use to anybody here: it takes milliseconds.
    """
    seconds: float = request.timeout.total_seconds()
    return seconds if seconds > 0 else None
