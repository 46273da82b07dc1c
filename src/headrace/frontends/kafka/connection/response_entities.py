"""Response entities of kio, built without naming a version: unknown fields are left out."""

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
"""Value of authorized operations that were not requested, or without an authorizer."""


def maker(context: RequestContext) -> Make:
    """Return `make(class_name, **fields)` for responses of the request's API and version.

    `make(None, …)` builds the response itself; a throttle time of 0 is the default.
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
    """Return a topic id of 16 bytes as a UUID; None becomes the zero UUID."""
    return NO_UUID if topic_id is None else UUID(bytes=topic_id)


def milliseconds(number: int) -> timedelta:
    """Return a duration in milliseconds as a timedelta."""
    return timedelta(milliseconds=number)


def error_fields(error: ApiError | None) -> dict[str, object]:
    """Return the fields `error_code` and `error_message` for an error, or for success."""
    if error is None:
        return {"error_code": ErrorCode.NONE, "error_message": None}
    return {"error_code": error.code, "error_message": error.message}


def timeout_seconds(request: Entity) -> float | None:
    """Return the client's timeout in seconds; None: no limit.

    A timeout of 0 or less would ask not to wait at all; it is ignored, as work takes milliseconds.
    """
    seconds: float = request.timeout.total_seconds()
    return seconds if seconds > 0 else None
