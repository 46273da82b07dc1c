"""A whole request refused: responses of cold APIs that hold nothing but an error code."""

from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

from headrace.model.errors import ErrorCode
from headrace.wire.kafka import kio_codec

_LEAST: tuple[tuple[type[Any], Any], ...] = (
    (bool, False), (int, 0), (str, ""), (bytes, b""), (timedelta, timedelta(0)),
    (datetime, datetime.fromtimestamp(0, UTC)),
)  # fmt: skip


def body(api_key: int, version: int, code: ErrorCode) -> bytes | None:
    """Return the response with its top-level error code set and all else empty.

    None where the API's response has no such field: then closing the connection is the only way.
    """
    response_type = kio_codec.response_type(api_key, version)
    names = {field.name for field in fields(response_type)}
    if "error_code" not in names:
        return None
    return kio_codec.encode_body(_empty(response_type, code))


def _empty(response_type: type[Any], code: ErrorCode) -> Any:  # noqa: ANN401 - kio's entities
    from kio.schema.errors import ErrorCode as KioErrorCode

    values: dict[str, Any] = {}
    hints = get_type_hints(response_type)
    for field in fields(response_type):
        if field.name == "error_code":
            values[field.name] = KioErrorCode(int(code))
        elif field.default is MISSING and field.default_factory is MISSING:
            values[field.name] = _nothing(hints[field.name])
    return response_type(**values)


def _nothing(hint: Any) -> Any:  # noqa: ANN401 - any type of kio's
    """Return the least value of a field's type."""
    text = str(hint)
    if "None" in text:
        return None
    if "tuple" in text:
        return ()
    base = getattr(hint, "__supertype__", hint)
    while hasattr(base, "__supertype__"):
        base = base.__supertype__
    # kio's own types are checked subclasses that cannot be made without a value.
    for plain, least in _LEAST:
        if isinstance(base, type) and issubclass(base, plain):
            return least
    return base()
