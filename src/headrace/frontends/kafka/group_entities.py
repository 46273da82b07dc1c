"""What the handlers of the group APIs share: kio's entities across versions, kio's error codes."""

from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Any

from headrace.frontends.kafka.handler import RequestContext
from headrace.model.errors import ErrorCode
from headrace.wire.kafka import cold

NO_THROTTLE = timedelta(0)
_ONE_MS = timedelta(milliseconds=1)


def response_module(context: RequestContext) -> ModuleType:
    """The module with the response's classes in the request's version."""
    module: ModuleType = cold.entity_module(context.api_key, context.version).response
    return module


def build(entity_type: Any, **values: Any) -> Any:  # noqa: ANN401 - kio's entities
    """An entity of those of `values` that its version has."""
    known = entity_type.__dataclass_fields__
    return entity_type(**{name: value for name, value in values.items() if name in known})


@cache
def kio_code(code: ErrorCode) -> Any:  # noqa: ANN401 - kio's entities
    """The same code as kio names it."""
    from kio.schema.errors import ErrorCode as KioErrorCode

    return KioErrorCode(int(code))


def milliseconds(duration: timedelta) -> int:
    """A duration as the wire has it."""
    return duration // _ONE_MS
