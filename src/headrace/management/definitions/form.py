"""The form by which RabbitMQ's UI uploads a definitions document: RFC 7578.

--BOUNDARY CRLF headers CRLF CRLF content CRLF --BOUNDARY ... CRLF --BOUNDARY--
"""

from collections.abc import Iterator
from email.message import Message
from email.parser import BytesHeaderParser
from typing import NamedTuple
from urllib.parse import urlsplit

from headrace.management.requests.errors import ManagementError, bad_request

PARTS_MAX = 16
HEAD_BYTES_MAX = 8 * 1024
"""Most bytes of a part's headers."""
BOUNDARY_BYTES_MAX = 70
"""RFC 2046, section 5.1.1."""
_HEAD_END = b"\r\n\r\n"
_FILE, _REDIRECT = "file", "redirect"


class DefinitionsForm(NamedTuple):
    """An uploaded document."""

    document: memoryview
    redirect: str | None = None
    """The relative reference that the browser opens afterwards (303); None: it opens none."""


def form_boundary(content_type: str) -> bytes | None:
    """Return the boundary of a form with this `Content-Type`; None: it is another type.

    Raises ManagementError for a form without a valid boundary.
    """
    head = Message()
    head["Content-Type"] = content_type
    if head.get_content_type() != "multipart/form-data":
        return None
    boundary = head.get_boundary("").encode("latin-1", "replace")
    if not 0 < len(boundary) <= BOUNDARY_BYTES_MAX:
        raise bad_request("the form has no valid boundary")
    return boundary


def definitions_form(body: bytes | bytearray, boundary: bytes) -> DefinitionsForm:
    """Return the document of a form; of several parts of one name the last counts, as in RabbitMQ.

    Raises ManagementError for a form that does not end, has too many parts, or no part `file`.
    """
    parts = dict(_parts(body, b"--" + boundary))
    if _FILE not in parts:
        raise bad_request("the form has no part 'file'")
    redirect = parts.get(_REDIRECT)
    return DefinitionsForm(parts[_FILE], None if redirect is None else _reference(redirect))


def _parts(body: bytes | bytearray, delimiter: bytes) -> Iterator[tuple[str, memoryview]]:
    """Yield the name and the content of each part that has a name."""
    at = 0 if body.startswith(delimiter) else _found(body, b"\r\n" + delimiter, 0) + 2
    content = memoryview(body)
    for _ in range(PARTS_MAX):
        at += len(delimiter)
        if body.startswith(b"--", at):
            return
        begin = _found(body, b"\r\n", at, at + HEAD_BYTES_MAX)
        if bytes(content[at:begin]).strip(b" \t"):
            raise _malformed()
        head_end = _found(body, _HEAD_END, begin, begin + HEAD_BYTES_MAX)
        end = _found(body, b"\r\n" + delimiter, head_end + 2)
        name = _name(bytes(content[begin + 2 : head_end + 2]))
        if name is not None:
            yield name, content[head_end + len(_HEAD_END) : end]
        at = end + 2
    raise bad_request(f"the form has more than {PARTS_MAX} parts")


def _found(body: bytes | bytearray, wanted: bytes, at: int, until: int | None = None) -> int:
    place = body.find(wanted, at, until)
    if place < 0:
        raise _malformed()
    return place


def _name(head: bytes) -> str | None:
    name = BytesHeaderParser().parsebytes(head).get_param("name", header="Content-Disposition")
    return name if isinstance(name, str) else None


def _reference(redirect: memoryview) -> str:
    """Return a reference to a page of the same site. Raises ManagementError."""
    try:
        reference = str(redirect, "ascii")
        parts = urlsplit(reference)
    except ValueError:
        raise bad_request("the form's redirect is no reference") from None
    if not reference.isprintable() or parts.scheme or parts.netloc or "\\" in reference:
        raise bad_request("the form's redirect is a page of another site")
    return reference


def _malformed() -> ManagementError:
    return bad_request("the form is malformed")
