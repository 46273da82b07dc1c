"""Error responses of cold APIs: the top-level error code, and nothing else."""

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
    """Return a response with the error code set and all other fields empty.

    None if the API's response has no such field: the connection must then be closed.
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
    """Return the empty value of a response field's type."""
    text = str(hint)
    if "None" in text:
        return None
    if "tuple" in text:
        return ()
    base = getattr(hint, "__supertype__", hint)
    while hasattr(base, "__supertype__"):
        base = base.__supertype__
    # kio's own types are checked subclasses that need a value.
    for plain, least in _LEAST:
        if isinstance(base, type) and issubclass(base, plain):
            return least
    return base()
