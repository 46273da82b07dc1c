"""The form of RabbitMQ's UI: its document and its redirect; malformed and hostile forms."""

import pytest

from headrace.management.definitions.form import definitions_form, form_boundary
from headrace.management.requests.errors import ManagementError

FILE = 'Content-Disposition: form-data; name="file"; filename="a.json"\r\nContent-Type: x/y'
REDIRECT = 'content-disposition: form-data; name="redirect"'
PAGE = "../#/import-succeeded"


def form(*parts: tuple[str, str], boundary: str = "b", end: str = "--\r\n") -> bytes:
    """Write a form of heads and contents."""
    written = "".join(f"--{boundary}\r\n{head}\r\n\r\n{content}\r\n" for head, content in parts)
    return f"{written}--{boundary}{end}".encode()


def test_the_form_of_the_ui_has_a_document_and_a_redirect() -> None:
    body = form((FILE, '{"a":\r\n--\r\n1}'), (REDIRECT, PAGE))
    found = definitions_form(body, b"b")
    assert (bytes(found.document), found.redirect) == (b'{"a":\r\n--\r\n1}', PAGE)


def test_text_before_the_form_and_unknown_parts_are_ignored() -> None:
    other = ("Content-Disposition: form-data; name=other", "x")
    body = b"text\r\n" + form(("X: y", "no name"), other, (FILE, "1"), (FILE, "")) + b"rest"
    found = definitions_form(bytearray(body), b"b")
    assert (bytes(found.document), found.redirect) == (b"", None)


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/form-data; boundary=gold-boundary", b"gold-boundary"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
        ("application/json", None),
        ("multipart/mixed; boundary=b", None),
        ("text/plain", None),
        ("", None),
    ],
)
def test_the_boundary_is_in_the_content_type(content_type: str, boundary: bytes | None) -> None:
    assert form_boundary(content_type) == boundary


@pytest.mark.parametrize("parameter", ["", "; boundary=", f"; boundary={'x' * 71}"])
def test_a_form_without_a_valid_boundary_is_refused(parameter: str) -> None:
    with pytest.raises(ManagementError, match="no valid boundary"):
        form_boundary("multipart/form-data" + parameter)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "malformed"),
        (b"--b", "malformed"),
        (b"--b\r\n", "malformed"),
        (form((FILE, "1"), end=""), "malformed"),
        (form((FILE, "1"))[:-4], "malformed"),
        (b"--bx\r\n" + FILE.encode() + b"\r\n\r\n1\r\n--b--", "malformed"),
        (form((FILE + "\r\nX: " + "x" * 9000, "1")), "malformed"),
        (form((FILE, "1"), boundary="other"), "malformed"),
        (form(), "no part 'file'"),
        (form((REDIRECT, PAGE)), "no part 'file'"),
        (form(*[(FILE, "1")] * 17), "more than 16 parts"),
    ],
)
def test_a_malformed_form_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(ManagementError, match=problem) as refused:
        definitions_form(body, b"b")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "redirect",
    ["https://elsewhere/", "//elsewhere/", "/\\elsewhere", "javascript:x", "a\r\nSet-Cookie: b",
     "é", "http://[", "a\tb"],
)  # fmt: skip
def test_a_redirect_to_another_site_is_refused(redirect: str) -> None:
    with pytest.raises(ManagementError, match="redirect"):
        definitions_form(form((FILE, "1"), (REDIRECT, redirect)), b"b")
