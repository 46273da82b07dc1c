"""Delegation tokens as values: who may do what with one, and how long it holds."""

import base64
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import (
    NAME_CHARS_MAX,
    RENEWERS_MAX,
    TIME_MS_MAX,
    DelegationToken,
    DelegationTokens,
    Lifetimes,
    check_principals,
    ended,
    new_token,
    renewed,
)
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import HASHES, make_credential

ALICE, BOB, CAROL, EVE = (Principal("User", name) for name in ("alice", "bob", "carol", "eve"))
LIFETIMES = Lifetimes(longest_ms=1000, renewed_ms=100)
TOKEN = DelegationToken("id", ALICE, CAROL, (BOB,), 5000, 5100, 6000)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


def code(call: Any, *words: Any) -> str:
    with pytest.raises(ApiError) as refused:
        call(*words)
    return refused.value.code.name


@pytest.mark.parametrize(
    ("asked", "max_ms", "expires_ms"),
    [(-1, 6000, 5100), (0, 6000, 5100), (1, 5001, 5001), (99, 5099, 5099), (100, 5100, 5100),
     (500, 5500, 5100), (1000, 6000, 5100), (1001, 6000, 5100), ((1 << 63) - 1, 6000, 5100)],
)  # fmt: skip
def test_a_new_token_lives_as_long_as_asked_and_allowed(
    asked: int, max_ms: int, expires_ms: int
) -> None:
    made = new_token("id", ALICE, CAROL, (BOB,), asked, 5000, LIFETIMES)
    assert made == TOKEN._replace(max_ms=max_ms, expires_ms=expires_ms)


def test_no_token_lives_beyond_the_end_of_time() -> None:
    made = new_token("id", ALICE, ALICE, (), 0, 5000, Lifetimes(1 << 62, 1 << 62))
    assert (made.max_ms, made.expires_ms) == (TIME_MS_MAX, TIME_MS_MAX)


@pytest.mark.parametrize(
    ("asked", "expires_ms"),
    [(-1, 5150), (0, 5150), (1, 5051), (99, 5149), (100, 5150), (101, 5150), ((1 << 63) - 1, 5150)],
)
def test_a_token_is_renewed_for_as_long_as_asked_and_usual(asked: int, expires_ms: int) -> None:
    for by in (ALICE, BOB):
        assert renewed(TOKEN, by, asked, 5050, LIFETIMES) == TOKEN._replace(expires_ms=expires_ms)


def test_a_token_is_never_renewed_beyond_its_last_end() -> None:
    late = TOKEN._replace(expires_ms=5990)
    assert renewed(late, ALICE, -1, 5950, LIFETIMES).expires_ms == 6000
    assert ended(late, ALICE, 999, 5950) == late._replace(expires_ms=6000)


def test_a_token_ends_when_it_is_told_to() -> None:
    assert ended(TOKEN, BOB, -1, 5050) is None
    assert ended(TOKEN, BOB, 0, 5050) == TOKEN._replace(expires_ms=5050)
    assert ended(TOKEN, BOB, 7, 5050) == TOKEN._replace(expires_ms=5057)


def test_only_its_owner_and_its_renewers_change_a_token() -> None:
    for by in (CAROL, EVE, Principal("Group", "alice")):  # who had it made does not either
        assert code(renewed, TOKEN, by, 1, 5050, LIFETIMES) == "DELEGATION_TOKEN_OWNER_MISMATCH"
        assert code(ended, TOKEN, by, -1, 5050) == "DELEGATION_TOKEN_OWNER_MISMATCH"
    assert [TOKEN.is_about(one) for one in (ALICE, BOB, CAROL, EVE)] == [True, True, True, False]


@pytest.mark.parametrize("ends", [{}, {"max_ms": 5100, "expires_ms": 9000}], ids=["usual", "last"])
def test_a_token_holds_to_the_millisecond_of_its_end_and_not_behind(ends: dict[str, Any]) -> None:
    token = TOKEN._replace(**ends)
    assert not token.expired(5100)
    assert token.expired(5101)
    renewed(token, ALICE, 1, 5100, LIFETIMES)
    for by in (ALICE, EVE):
        assert code(renewed, token, by, 1, 5101, LIFETIMES) == "DELEGATION_TOKEN_EXPIRED"
        assert code(ended, token, by, -1, 5101) == "DELEGATION_TOKEN_EXPIRED"


def test_owners_and_renewers_are_users_with_names() -> None:
    check_principals(ALICE, (BOB,) * RENEWERS_MAX)
    check_principals(Principal("User", "x" * NAME_CHARS_MAX), ())
    assert code(check_principals, Principal("Group", "g"), ()) == "INVALID_PRINCIPAL_TYPE"
    assert code(check_principals, ALICE, (Principal("user", "b"),)) == "INVALID_PRINCIPAL_TYPE"
    assert code(check_principals, ALICE, (BOB,) * (RENEWERS_MAX + 1)) == "INVALID_REQUEST"
    for name in ("", "x" * (NAME_CHARS_MAX + 1)):
        assert code(check_principals, ALICE, (Principal("User", name),)) == "INVALID_REQUEST"


@settings(suppress_health_check=list(HealthCheck))
@given(TIMES, TIMES, st.integers(0, 1 << 50), st.integers(1, 1 << 60), st.integers(1, 1 << 60))
def test_whatever_is_asked_a_token_ends_between_now_and_its_last_end(
    lifetime: int, period: int, now: int, longest: int, usual: int
) -> None:
    lifetimes = Lifetimes(longest, usual)
    now = min(now, TIME_MS_MAX - 1)
    made = new_token("id", ALICE, ALICE, (), lifetime, now, lifetimes)
    assert now < made.expires_ms <= made.max_ms <= min(now + longest, TIME_MS_MAX)
    assert made.expires_ms <= now + usual
    later = renewed(made, ALICE, period, now, lifetimes)
    assert now < later.expires_ms <= made.max_ms
    assert later._replace(expires_ms=0) == made._replace(expires_ms=0)
    sooner = ended(made, ALICE, period, now)
    assert (sooner is None) == (period < 0)
    assert sooner is None or now <= sooner.expires_ms <= made.max_ms


def tokens(*known: DelegationToken) -> DelegationTokens:
    found = DelegationTokens(Secret("of all brokers"), b"salt")
    for token in known:
        found.put(token)
    return found


def test_a_token_is_found_by_its_hmac_only() -> None:
    known = tokens(TOKEN)
    hmac = known.hmac("id")
    assert len(hmac) == 64
    assert known.of_hmac(hmac) == TOKEN
    for wrong in (b"", b"id", hmac[:-1], known.hmac("other"), hmac + b"\0"):
        assert code(known.of_hmac, wrong) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND.name
    other = DelegationTokens(Secret("another"), b"salt")
    assert other.hmac("id") != hmac
    known.remove("id")
    assert code(known.of_hmac, hmac) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND.name


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_bearer_is_checked_by_scram_as_long_as_the_token_holds(mechanism: Mechanism) -> None:
    known = tokens(TOKEN)
    found = known.credential("id", mechanism, 5100)
    assert found is not None
    assert (found.owner, found.ends_ms) == ("alice", 5100)
    password = Secret(base64.b64encode(known.hmac("id")).decode())
    assert found.credential == make_credential(mechanism, password, b"salt", 4096)
    assert known.credential("id", mechanism, 5101) is None
    assert known.credential("other", mechanism, 5100) is None
    known.put(TOKEN._replace(expires_ms=5200))
    again = known.credential("id", mechanism, 5200)
    assert again is not None
    assert (again.ends_ms, again.credential) == (5200, found.credential)
    known.remove("id")
    assert known.credential("id", mechanism, 5100) is None


def test_all_is_replaced_at_once() -> None:
    other = TOKEN._replace(token_id="other", owner=BOB)
    known = tokens(TOKEN)
    known.replace([other])
    assert list(known) == [other]
    assert (len(known), known.owned_by(ALICE), known.owned_by(BOB)) == (1, 0, 1)
    assert code(known.of_hmac, known.hmac("id")) == "DELEGATION_TOKEN_NOT_FOUND"
    assert known.of_hmac(known.hmac("other")) == other


def test_nothing_of_the_secret_is_shown() -> None:
    known = tokens(TOKEN)
    known.credential("id", Mechanism.SCRAM_SHA_256, 5000)
    shown = f"{known!r} {vars(known)!r}"
    assert "of all brokers" not in shown
    assert base64.b64encode(known.hmac("id")).decode() not in shown
