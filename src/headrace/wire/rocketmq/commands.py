"""Remoting commands: the header of a frame, in JSON or in binary, and its body.

The binary form (all integers big-endian):

    code i16 | language u8 | version i16 | opaque i32 | flag i32
    remark length i32 | remark | fields length i32 | fields: (name length i16 | name |
    value length i32 | value)*

RocketMQ answers in JSON whatever a request used, and so does Headrace. Codes above 32,767 do not
fit the binary form.

Clients differ in what they write: Java and Go send all fields as strings, C++ and Node.js numbers
and booleans too. A decoded command has strings only, so that a handler reads one form.
"""

import json
import struct
from collections.abc import Mapping
from json.encoder import encode_basestring as _quoted
from typing import Any, NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.first_bytes import FirstBytes
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.frames import Serialization, frame_head

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
)  # fmt: skip
"""Clients' languages by their number in the binary form."""
OTHER_LANGUAGE = 7
PROTOCOL_VERSION = 513
"""The version in answers: 5.5.0's. Clients choose what they send by it."""
_INT32 = range(-(1 << 31), 1 << 31)
_INT16 = range(-(1 << 15), 1 << 15)
_FIXED = struct.Struct(">hBhii")
_INT16_FORM = struct.Struct(">h")
_INT32_FORM = struct.Struct(">i")


class CommandFlag:
    """The bits of a command's flag: plain integers, as each command is asked for them."""

    RESPONSE = 1
    ONE_WAY = 2


class RemotingCommand(NamedTuple):
    """A request or a response."""

    code: int
    opaque: int
    """The number by which a response is matched with its request."""
    flag: int = 0
    fields: Mapping[str, str] | None = None
    """The header's own fields by name (`extFields`); None: the header has none at all."""
    body: bytes | memoryview = b""
    remark: str | None = None
    language: str = "JAVA"
    version: int = PROTOCOL_VERSION

    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
        return bool(self.flag & CommandFlag.RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether the sender expects no response."""
        return bool(self.flag & CommandFlag.ONE_WAY)


def utf8(text: str) -> bytes:
    """Encode text; half a surrogate pair, which JSON can carry, becomes `?` as in Java."""
    return text.encode("utf-8", "replace")


# Decode


def decode_command(
    serialization: Serialization, header: bytes | memoryview, body: bytes | memoryview
) -> RemotingCommand:
    """Decode a frame's header; the body is not looked at. Raises Malformed."""
    if serialization is Serialization.JSON:
        return _from_json(bytes(header), body)
    return _from_binary(bytes(header), body)


def _from_json(header: bytes, body: bytes | memoryview) -> RemotingCommand:
    try:
        read = _read_json(header.decode())
    except (ValueError, RecursionError) as error:
        raise Malformed(f"a header is not JSON: {error}") from None
    if not isinstance(read, dict):
        raise Malformed("a header is not a JSON object")
    fields = read.get("extFields")
    remark, language = read.get("remark"), read.get("language")
    if not isinstance(remark, str | None) or not isinstance(language, str | None):
        raise Malformed("a header's remark or language is not text")
    return RemotingCommand(
        _integer(read, "code"),
        _integer(read, "opaque"),
        _integer(read, "flag"),
        None if fields is None else _fields(fields),
        body,
        remark,
        language or LANGUAGES[OTHER_LANGUAGE],
        _integer(read, "version"),
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_read_json = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _integer(read: dict[str, Any], name: str) -> int:
    value = read.get(name, 0)
    if type(value) is not int or value not in _INT32:
        raise Malformed(f"a header's {name} is not an integer of 32 bits")
    return value


_TEXT = frozenset((str,))


def _fields(read: object) -> dict[str, str]:
    """Return the fields as text: numbers and booleans as their JSON, null as no field."""
    if not isinstance(read, dict):
        raise Malformed("a header's fields are not a JSON object")
    if _TEXT.issuperset(map(type, read.values())):
        return read  # of Java and Go
    fields: dict[str, str] = {}
    for name, value in read.items():
        if type(value) is str:
            fields[name] = value
        elif isinstance(value, bool):
            fields[name] = "true" if value else "false"
        elif isinstance(value, int | float):
            fields[name] = str(value)
        elif value is not None:
            raise Malformed(f"field {name} of a header is neither text nor a number")
    return fields


def _from_binary(header: bytes, body: bytes | memoryview) -> RemotingCommand:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _sized(header, _FIXED.size)
        raw_fields, at = _sized(header, at)
        if at != len(header):
            raise Malformed(f"{len(header) - at} bytes behind the fields of a header")
        fields: dict[str, str] = {}
        at = 0
        while at < len(raw_fields):
            (size,) = _INT16_FORM.unpack_from(raw_fields, at)
            name, at = _cut(raw_fields, at + 2, size)
            value, at = _sized(raw_fields, at)
            fields[name.decode()] = value.decode()
        text = remark.decode() if remark else None
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"a binary header does not parse: {error}") from None
    named = LANGUAGES[language if language < len(LANGUAGES) else OTHER_LANGUAGE]
    return RemotingCommand(code, opaque, flag, fields, body, text, named, version)


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _INT32_FORM.unpack_from(data, at)
    return _cut(data, at + 4, size)


def _cut(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise Malformed(f"{size} bytes of a header are named, and {len(data) - at} are left")
    return data[at : at + size], at + size


# Encode


def encode_command(
    command: RemotingCommand, serialization: Serialization = Serialization.JSON
) -> list[bytes | memoryview]:
    """Encode a command as one frame, in parts: length and header, and the body if there is one.

    The JSON is RocketMQ's own: names in order, text as UTF-8. ValueError: the command is too large,
    or its code does not fit the binary form.
    """
    header = (
        _json_header(command) if serialization is Serialization.JSON else _binary_header(command)
    )
    head = frame_head(serialization, len(header), len(command.body)) + header
    return [head, command.body] if command.body else [head]


def _json_header(command: RemotingCommand) -> bytes:
    # Texts alone are quoted: a JSON encoder takes several times as long for so few of them.
    fields = remark = ""
    if command.fields is not None:
        pairs = [f"{_quoted(name)}:{_quoted(value)}" for name, value in command.fields.items()]
        fields = f'"extFields":{{{",".join(pairs)}}},'
    if command.remark is not None:
        remark = f'"remark":{_quoted(command.remark)},'
    return utf8(
        f'{{"code":{command.code},{fields}"flag":{command.flag},'
        f'"language":{_quoted(command.language)},"opaque":{command.opaque},{remark}'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    )


def _binary_header(command: RemotingCommand) -> bytes:
    if command.code not in _INT16 or command.version not in _INT16:
        raise ValueError(f"code {command.code}, version {command.version}: not 16 bits")
    language = command.language
    parts: list[bytes] = []
    for name, value in (command.fields or {}).items():
        raw_name, raw_value = utf8(name), utf8(value)
        parts += (_INT16_FORM.pack(len(raw_name)), raw_name)
        parts += (_INT32_FORM.pack(len(raw_value)), raw_value)
    fields = b"".join(parts)
    remark = utf8(command.remark or "")
    return b"".join(
        (
            _FIXED.pack(
                command.code,
                LANGUAGES.index(language) if language in LANGUAGES else OTHER_LANGUAGE,
                command.version,
                command.opaque,
                command.flag,
            ),
            _INT32_FORM.pack(len(remark)),
            remark,
            _INT32_FORM.pack(len(fields)),
            fields,
        )
    )


# Clients at a listener of another protocol

REFUSED_OPAQUE = 0
"""The number of a refusal. That of the refused request is not known yet; a Java client's first
request has 0, so that RocketMQ's mqadmin shows the text."""


def _refusal(text: str) -> bytes:
    """Return an answer with an error: clients show its text, or log it as an unexpected answer."""
    answer = RemotingCommand(
        ResponseCode.SYSTEM_ERROR, REFUSED_OPAQUE, CommandFlag.RESPONSE, remark=text
    )
    return b"".join(encode_command(answer))


FIRST_BYTES = FirstBytes(
    "RocketMQ",
    "a RocketMQ",
    # A length below 32 MiB, then the header's form and length: 1, binary, or 0, JSON. JSON headers
    # of clients have 60 bytes or more; from 32 bytes to 64 KiB none looks like Kafka's Produce, nor
    # does one in a frame of more than 64 bytes like a Produce of an unknown version without body.
    rb"(?s)[\x00\x01].{3}\x01.{3}"
    rb"|(?!\x00\x00\x00[\x00-\x3f])[\x00\x01].{3}\x00\x00(?:\x00[\x20-\xff]|[\x01-\xff].)",
    rb"(?!)",
    _refusal,
)
