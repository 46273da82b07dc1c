"""Headers of plain sends are read by their form, and all others are not."""

from collections.abc import Mapping

import pytest

from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from headrace.wire.rocketmq.frames import HEADER_AT
from headrace.wire.rocketmq.hot.send_forms import SendForm, SentFields, send_form

FIELDS = {
    "a": "PG", "b": "orders", "c": "TBW102", "d": "4", "e": "3", "f": "0", "g": "1795860860391",
    "h": "0", "i": "KEYS\x01k1\x02UNIQ_KEY\x017F00\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip


def header(
    fields: Mapping[str, str] | None = None, *, opaque: int = 7, flag: int = 0, code: int = 310
) -> bytes:
    """Return a header as Java's client writes it; `fields`: those that differ."""
    command = RemotingCommand(code, opaque, flag, FIELDS | dict(fields or {}))
    return bytes(encode_command(command)[0][HEADER_AT:])


def form() -> SendForm:
    """Return the form of such a header."""
    found = send_form(header())
    assert found is not None
    return found


def read(data: bytes) -> SentFields | None:
    """Read a header by that form, behind and before other bytes."""
    return form().read(b"12345678" + data + b'body","j"', 8, 8 + len(data))


@pytest.mark.parametrize("name", [{}, {"n": "broker-a"}])
def test_java_header_has_a_form_with_and_without_a_broker_name(name: dict[str, str]) -> None:
    assert send_form(header(name)) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"e": "-1"}, {"f": "1"}, {"f": "8"}, {"h": "7"}, {"j": "1"}, {"k": "true"}, {"m": "true"},
        {"i": 'quoted "'}, {"i": "back\\slash"}, {"AccessKey": "key"}, {"l": "16"}, {"b": 't"'},
    ],
)  # fmt: skip
def test_send_that_is_not_plain_has_no_form(changed: dict[str, str]) -> None:
    assert send_form(header(changed)) is None
    assert read(header(changed)) is None


@pytest.mark.parametrize(("flag", "code"), [(2, 310), (1, 310), (0, 320), (0, 10)])
def test_header_that_is_no_plain_request_has_no_form(flag: int, code: int) -> None:
    data = header(flag=flag, code=code)
    assert send_form(data) is None
    assert read(data) is None


def test_header_of_the_form_is_read_without_json() -> None:
    properties = "UNIQ_KEY\x017F01\x02TAGS\x01A"
    found = read(header({"e": "12", "g": "5", "i": properties}, opaque=123456789))
    assert found == SentFields(b"12", 5, properties.encode(), b"123456789")


def test_opaque_above_32_bits_is_decoded_as_json() -> None:
    assert read(header(opaque=(1 << 31) - 1)) is not None
    assert read(header().replace(b'"opaque":7', b'"opaque":2147483648')) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"e":"3"', b'"e":""'), (b'"e":"3"', b'"e":"x"'), (b'"e":"3"', b'"e":"3","f":"1"'),
        (b"1795860860391", b"-1"), (b"1795860860391", b"9" * 19), (b'"opaque":7', b'"opaque":-7'),
        (b'"opaque":7', b'"opaque":'), (b"7F00", b"7F\\n0"), (b"7F00", "größe".encode()),
        (b"7F00", b'7F00","z":"'), (b"513}", b"513 }"), (b"513}", b"513"), (b"orders", b"others"),
    ],
)  # fmt: skip
def test_header_of_another_form_is_decoded_as_json(old: bytes, new: bytes) -> None:
    assert old in header()
    assert read(header().replace(old, new)) is None


def test_header_cut_anywhere_is_not_read() -> None:
    data = header()
    for size in range(len(data)):
        assert form().read(data, 0, size) is None
        assert form().read(data[:size], 0, size) is None
