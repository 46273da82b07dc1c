"""A certificate's subject in RFC 2253 form, as Java's X500Principal.getName() returns it.

The subject is decoded from the certificate's bytes (DER, X.690): Python's `ssl` drops the types of
its values, and Kafka's mapping rules expect Java's spelling. Only certificates that OpenSSL has
verified get here; invalid ones are `Malformed` anyway.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headrace.model.errors import Malformed

SUBJECT_CHARS_MAX = 1024
"""Maximum length in characters: mapping rules with regular expressions run on the subject."""

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute keywords by OID (RFC 2253, 2.3). Java writes all other types as OIDs, with the values'
bytes in hex."""

_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Encodings by DER tag: UTF8String, PrintableString, T61String, IA5String, GeneralString,
UniversalString, BMPString."""
_ESCAPED = frozenset(',=+<>#;"\\')
_LENGTH_BYTES_MAX = 4


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate, its last part first. Raises Malformed."""
    outer = next(_elements(certificate), None)
    if outer is None or outer.tag != _SEQUENCE:
        raise Malformed("no certificate")
    signed = next(_elements(outer.content), None)
    if signed is None or signed.tag != _SEQUENCE:
        raise Malformed("a certificate without content")
    fields = [field for field in _elements(signed.content) if field.tag != _VERSION]
    if len(fields) < 5 or fields[4].tag != _SEQUENCE:
        raise Malformed("a certificate without a subject")
    parts = [_relative_name(part) for part in _elements(fields[4].content)]
    name = ",".join(reversed(parts))
    if len(name) > SUBJECT_CHARS_MAX:
        raise Malformed(
            f"a certificate's subject of {len(name)} characters, at most {SUBJECT_CHARS_MAX} are"
            " taken"
        )
    return name


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield the DER elements in `data`, in order. Raises Malformed."""
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise Malformed("a certificate that is cut off")
        tag, size = data[at], data[at + 1]
        begin = at + 2
        if size & 0x80:
            count = size & 0x7F
            if not 0 < count <= _LENGTH_BYTES_MAX or begin + count > len(data):
                raise Malformed("a certificate with a length that is none")
            size = int.from_bytes(data[begin : begin + count], "big")
            begin += count
        end = begin + size
        if end > len(data):
            raise Malformed("a certificate that is cut off")
        yield _Element(tag, data[begin:end], data[at:end])
        at = end


def _relative_name(part: _Element) -> str:
    if part.tag != _SET:
        raise Malformed("a certificate's subject that is none")
    return "+".join(_attribute(pair) for pair in _elements(part.content))


def _attribute(pair: _Element) -> str:
    elements = list(_elements(pair.content))
    if len(elements) != 2 or elements[0].tag != _OID:
        raise Malformed("a certificate's subject that is none")
    kind, value = _dotted(elements[0].content), elements[1]
    keyword, encoding = _KEYWORDS.get(kind), _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding, 'replace'))}"


def _dotted(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise Malformed("a certificate's subject that is none")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(value: str) -> str:
    text = "".join(
        f"\\{mark}" if mark in _ESCAPED else "\\00" if mark == "\0" else mark for mark in value
    )
    inner = text.strip(" \r")
    if not inner:
        return "".join(f"\\{blank}" for blank in text)
    begin = text.index(inner)
    lead, trail = text[:begin], text[begin + len(inner) :]
    return "".join(f"\\{b}" for b in lead) + inner + "".join(f"\\{b}" for b in trail)
