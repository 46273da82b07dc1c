"""PLAIN: a name and a password, checked (RFC 4616)."""

import pytest

from headrace.model.secret import Secret
from headrace.security.sasl.plain import PlainClient, PlainServer
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, SaslRefused

USERS = {"alice": Secret("wonder"), "bob": Secret("")}


def refused(token: bytes) -> SaslRefused:
    server = PlainServer(USERS)
    with pytest.raises(SaslRefused) as raised:
        server.respond(token)
    assert not server.done
    assert server.user == ""
    return raised.value


def test_the_right_password_makes_the_user_known() -> None:
    for token in (b"\0alice\0wonder", b"alice\0alice\0wonder"):
        server = PlainServer(USERS)
        assert server.respond(token) == b""
        assert (server.done, server.user) == (True, "alice")
    assert PlainClient("alice", Secret("wonder")).first() == b"\0alice\0wonder"


@pytest.mark.parametrize(
    "token", [b"\0alice\0wonde", b"\0alice\0wonderr", b"\0eve\0wonder", b"\0ALICE\0wonder",
              b"\0bob\0x", b"\0\0eve\0"[1:] + b"x"],
)  # fmt: skip
def test_wrong_passwords_and_unknown_users_are_told_the_same(token: bytes) -> None:
    problem = refused(token)
    assert problem.told == "Authentication failed: Invalid username or password"
    assert "wonder" not in str(problem).replace("alice", "")


def test_nobody_is_taken_for_another_user() -> None:
    told = refused(b"bob\0alice\0wonder").told
    assert told is not None
    assert "authorization id that is different" in told


def test_another_users_name_is_not_confirmed_to_who_has_the_wrong_password() -> None:
    told = refused(b"bob\0alice\0wrong").told
    assert told == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"alice\0wonder", None),
        (b"\0alice\0wonder\0", None),
        (b"", None),
        (b"\0alice\0\xff", None),
        (b"\0alice\0" + b"x" * TOKEN_BYTES_MAX, None),
    ],
)
def test_what_is_no_message_is_refused(token: bytes, told: str | None) -> None:
    assert refused(token).told == told


def test_nothing_is_taken_behind_the_end() -> None:
    server = PlainServer(USERS)
    server.respond(b"\0alice\0wonder")
    with pytest.raises(SaslRefused):
        server.respond(b"\0alice\0wonder")
    assert server.user == "alice"
