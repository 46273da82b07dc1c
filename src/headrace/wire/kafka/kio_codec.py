"""Codec of the less frequent APIs, through kio's entities.

kio has a module for each API, version and direction. Each is imported when first used (1 to 8 ms
for the two of a version, 30 more for the very first), or ahead by `warm`. Field names, types and
defaults are kio's: `kio.schema.<api>.v<version>`.
"""

import io
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from headrace.model.errors import Malformed
from headrace.wire.kafka.api import ApiKey, is_served
from headrace.wire.kafka.frame import request_head, response_head
from headrace.wire.kafka.kio_bounds import check, prepare

REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""Larger cold requests are refused: entities take many times the bytes they came from."""

Entity = Any
_Read = Callable[[memoryview, int], tuple[Entity, int]]
_Write = Callable[[io.BytesIO, Entity], None]


@cache
def _import_kio() -> None:
    """Import the modules that all of kio's modules need.

    If hypothesis is installed, kio imports it to register its types. A broker must not carry its 14
    MB, so the import is blocked unless the process has imported hypothesis already.
    """
    unwanted = "hypothesis" not in sys.modules
    if unwanted:
        sys.modules["hypothesis"] = cast("ModuleType", None)  # Importing it raises ImportError now.
    try:
        import_module("kio.static.primitive")
        # kio.serial imports packages of headers, schemas import modules within them: two threads
        # that began with one each would wait for each other until the import machinery reports a
        # deadlock.
        import_module("kio.serial")
    finally:
        if unwanted:
            del sys.modules["hypothesis"]


def _schema(api_key: int, version: int, part: str = "") -> ModuleType:
    if not is_served(api_key, version):
        raise Malformed(f"API {api_key} v{version} is not spoken here")
    _import_kio()
    return import_module(f"kio.schema.{ApiKey(api_key).name.lower()}.v{version}{part}")


def entity_module(api_key: int, version: int) -> ModuleType:
    """Import kio's package with the request and response modules of an API version."""
    for part in ("request", "response"):
        _schema(api_key, version, f".{part}")
    return _schema(api_key, version)


@cache
def _entity_type(api_key: int, version: int, part: str) -> type[Entity]:
    module = _schema(api_key, version, f".{part}")
    name = ApiKey(api_key).name.lower()
    class_name = "".join(word.capitalize() for word in name.split("_")) + part.capitalize()
    entity_type: type[Entity] = getattr(module, class_name)
    return entity_type


def request_type(api_key: int, version: int) -> type[Entity]:
    """Return the kio class of a request; its nested classes are in the same module."""
    return _entity_type(api_key, version, "request")


def response_type(api_key: int, version: int) -> type[Entity]:
    """Return the kio class of a response; its nested classes are in the same module."""
    return _entity_type(api_key, version, "response")


@cache
def _reader(api_key: int, version: int, part: str) -> _Read:
    entity_type = _entity_type(api_key, version, part)
    from kio.serial import entity_reader

    reader: _Read = entity_reader(entity_type)
    return reader


@cache
def _writer(api_key: int, version: int, part: str) -> _Write:
    entity_type = _entity_type(api_key, version, part)
    from kio.serial import entity_writer

    writer: _Write = entity_writer(entity_type)
    return writer


def _writer_of(entity: Entity) -> _Write:
    return _writer(entity.__api_key__, entity.__version__, entity.__type__.name)


def _decode(api_key: int, version: int, part: str, body: memoryview) -> Entity:
    read = _reader(api_key, version, part)
    checked = check(_entity_type(api_key, version, part), body)
    from kio.serial.errors import SerialError

    try:
        # kio reads from read-only buffers only; the entities contain copies.
        entity, _ = read(checked.toreadonly(), 0)
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise Malformed(f"{ApiKey(api_key).name} v{version} {part}: {error}") from None
    return entity


def decode_request(api_key: int, version: int, body: memoryview) -> Entity:
    """Decode a request's body, without its header, to a kio entity. Raises Malformed."""
    if len(body) > REQUEST_BYTES_MAX:
        raise Malformed(f"a request of {len(body)} bytes, at most {REQUEST_BYTES_MAX}")
    return _decode(api_key, version, "request", body)


def decode_response(api_key: int, version: int, body: memoryview) -> Entity:
    """Decode a response's body, without its header, to a kio entity. Raises Malformed."""
    return _decode(api_key, version, "response", body)


def encode_body(entity: Entity) -> bytes:
    """Encode the body of a request or response."""
    out = io.BytesIO()
    _writer_of(entity)(out, entity)
    return out.getvalue()


def encode_response(entity: Entity, correlation_id: int) -> bytes:
    """Encode a whole response frame: length, header, body."""
    body = encode_body(entity)
    return response_head(entity.__api_key__, entity.__version__, correlation_id, len(body)) + body


def encode_request(entity: Entity, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a whole request frame: length, header, body."""
    body = encode_body(entity)
    key, version = entity.__api_key__, entity.__version__
    return request_head(key, version, correlation_id, client_id, len(body)) + body


def warm(api_key: int, version: int) -> None:
    """Import modules and create codecs for requests of this API and version. Thread-safe."""
    _reader(api_key, version, "request")
    _writer(api_key, version, "response")
    prepare(_entity_type(api_key, version, "request"))
