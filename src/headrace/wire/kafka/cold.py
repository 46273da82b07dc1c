"""The APIs that are not hot: kio's entities in, kio's entities out.

kio holds a module per API, version and direction; each is imported when it is first met (0.3 to 3
ms), or ahead by `warm`. Field names, types and defaults are kio's: `kio.schema.<api>.v<version>`.
"""

import io
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from headrace.model.errors import Malformed
from headrace.wire.kafka.api import VERSIONS, ApiKey, is_served
from headrace.wire.kafka.bounds import check
from headrace.wire.kafka.frame import request_head, response_head

REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""Larger cold requests are refused: entities take many times the bytes they came from."""

Entity = Any
_Read = Callable[[memoryview, int], tuple[Entity, int]]
_Write = Callable[[io.BytesIO, Entity], None]


def entity_module(api_key: int, version: int) -> ModuleType:
    """kio's package with the request's and the response's module of one API version."""
    if not is_served(api_key, version):
        raise Malformed(f"API {api_key} v{version} is not spoken here")
    name = ApiKey(api_key).name.lower()
    for part in ("request", "response"):
        import_module(f"kio.schema.{name}.v{version}.{part}")
    return import_module(f"kio.schema.{name}.v{version}")


@cache
def _entity_type(api_key: int, version: int, part: str) -> type[Entity]:
    if not is_served(api_key, version):
        raise Malformed(f"API {api_key} v{version} is not spoken here")
    name = ApiKey(api_key).name.lower()
    module = import_module(f"kio.schema.{name}.v{version}.{part}")
    class_name = "".join(word.capitalize() for word in name.split("_")) + part.capitalize()
    entity_type: type[Entity] = getattr(module, class_name)
    return entity_type


def request_type(api_key: int, version: int) -> type[Entity]:
    """The class of that version's request; nested classes live in its module."""
    return _entity_type(api_key, version, "request")


def response_type(api_key: int, version: int) -> type[Entity]:
    """The class of that version's response; nested classes live in its module."""
    return _entity_type(api_key, version, "response")


@cache
def _reader(api_key: int, version: int, part: str) -> _Read:
    from kio.serial import entity_reader

    reader: _Read = entity_reader(_entity_type(api_key, version, part))
    return reader


@cache
def _writer(api_key: int, version: int, part: str) -> _Write:
    from kio.serial import entity_writer

    writer: _Write = entity_writer(_entity_type(api_key, version, part))
    return writer


def _writer_of(entity: Entity) -> _Write:
    return _writer(entity.__api_key__, entity.__version__, entity.__type__.name)


def _decode(api_key: int, version: int, part: str, body: memoryview) -> Entity:
    read = _reader(api_key, version, part)
    checked = check(_entity_type(api_key, version, part), body)
    from kio.serial.errors import SerialError

    try:
        # kio reads from read-only buffers alone; the entities hold copies.
        entity, _ = read(checked.toreadonly(), 0)
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise Malformed(f"{ApiKey(api_key).name} v{version} {part}: {error}") from None
    return entity


def decode_request(api_key: int, version: int, body: memoryview) -> Entity:
    """The request in `body` (what follows the header), copied out of it."""
    if len(body) > REQUEST_BYTES_MAX:
        raise Malformed(f"a request of {len(body)} bytes, at most {REQUEST_BYTES_MAX}")
    return _decode(api_key, version, "request", body)


def decode_response(api_key: int, version: int, body: memoryview) -> Entity:
    """The response in `body` (what follows the header), copied out of it."""
    return _decode(api_key, version, "response", body)


def encode_body(entity: Entity) -> bytes:
    """A request's or response's bytes without length and header."""
    out = io.BytesIO()
    _writer_of(entity)(out, entity)
    return out.getvalue()


def encode_response(entity: Entity, correlation_id: int) -> bytes:
    """A whole response frame: length, header, body."""
    body = encode_body(entity)
    return response_head(entity.__api_key__, entity.__version__, correlation_id, len(body)) + body


def encode_request(entity: Entity, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame: length, header, body."""
    body = encode_body(entity)
    key, version = entity.__api_key__, entity.__version__
    return request_head(key, version, correlation_id, client_id, len(body)) + body


def warm(api_keys: Iterable[int], versions: Callable[[int], Iterable[int]] | None = None) -> None:
    """Import the modules of these APIs and make their codecs: for a thread, soon after start.

    Without `versions` only each API's highest, which is what current clients ask for.
    """
    for key in api_keys:
        chosen = (VERSIONS[ApiKey(key)][1],) if versions is None else versions(key)
        for version in chosen:
            _reader(key, version, "request")
            _writer(key, version, "response")
