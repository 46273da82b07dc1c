"""SCRAM: RFC 7677's vector, RFC 5802's rules field by field, and what is kept of a password."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.secret import Secret
from headrace.security.sasl import scram
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, Mechanism, SaslRefused
from headrace.security.sasl.scram import Credential
from headrace.security.sasl.scram_exchange import ScramClient, ScramServer

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
# The example of RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
CHALLENGE = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={PROOF}".encode()
SIGNED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
KEPT = scram.make_credential(SHA_256, Secret("pencil"), SALT, 4096)


def server(credential: Credential | None = KEPT, mechanism: Mechanism = SHA_256) -> ScramServer:
    return ScramServer(mechanism, lambda user: credential, SERVER_NONCE, b"disguise")


def begun() -> ScramServer:
    made = server()
    assert made.respond(FIRST) == CHALLENGE
    return made


def refused(at: ScramServer, token: bytes) -> SaslRefused:
    with pytest.raises(SaslRefused) as raised:
        at.respond(token)
    assert not at.done
    assert at.user == ""
    return raised.value


def test_the_server_answers_as_in_rfc_7677() -> None:
    made = begun()
    assert made.respond(FINAL) == SIGNED
    assert (made.done, made.user) == (True, "user")


def test_the_client_asks_as_in_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    assert client.first() == FIRST
    assert client.respond(CHALLENGE) == FINAL
    assert client.respond(SIGNED) is None


def test_the_formulas_are_rfc_5802s_with_its_own_vector() -> None:
    # RFC 5802, section 5: SCRAM-SHA-1, whose one example has the numbers behind each formula.
    salted = hashlib.pbkdf2_hmac("sha1", b"pencil", base64.b64decode("QSXCR+Q6sek8bf92"), 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha1")
    signed = (
        b"n=user,r=fyko+d2lbbFgONRv9qkxdawL,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,"
        b"s=QSXCR+Q6sek8bf92,i=4096,c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    )
    signature = hmac.digest(hashlib.sha1(client_key).digest(), signed, "sha1")
    assert scram.encode64(scram.xored(client_key, signature)) == "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert scram.decode64("rmF9pqV8S7suAoZWja4dJRkFsKQ=") == hmac.digest(
        hmac.digest(salted, b"Server Key", "sha1"), signed, "sha1"
    )
    for mechanism, name in scram.HASHES.items():  # the same formulas with other hashes
        kept = scram.credential_of(mechanism, salted, b"s", 4096)
        client_key = hmac.digest(salted, b"Client Key", name)
        assert kept.stored_key == hashlib.new(name, client_key).digest()
        assert kept.server_key == hmac.digest(salted, b"Server Key", name)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "ünï"])
def test_client_and_server_understand_each_other(mechanism: Mechanism, user: str) -> None:
    password = Secret("pä=ss,wörd")
    kept = scram.make_credential(mechanism, password, b"salt", 5000)
    asked: list[str] = []

    def find(name: str) -> Credential:
        asked.append(name)
        return kept

    made = ScramServer(mechanism, find, "theirs", b"d")
    client = ScramClient(mechanism, user, password, "ours")
    proof = client.respond(made.respond(client.first()))
    assert proof is not None
    assert client.respond(made.respond(proof)) is None
    assert (made.user, asked) == (user, [user])


@pytest.mark.parametrize(
    "token",
    [
        b"y,,n=user,r=abc",  # channel binding
        b"p=tls-unique,,n=user,r=abc",
        b",,n=user,r=abc",
        b"n,n=user,r=abc",
        b"n,,m=x,n=user,r=abc",  # a mandatory extension
        b"n,,n=user,r=abc,m=x",
        b"n,,n=user,r=abc,other=x",
        b"n,,n=user,r=abc,tokenauth=yes",
        b"n,,n=user,r=abc,tokenauth=",
        b"n,,n=,r=abc",  # no name
        b"n,,n=us=er,r=abc",  # an escape that is none
        b"n,,n=us=2cer,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=user,r=",  # no nonce
        b"n,,n=user,r=a b",
        b"n,,n=user,r=\xc3\xa4",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=\xff,r=abc",
        b"n,,n=user,r=abc,",
        b"",
        b"n,,n=user,r=" + b"a" * TOKEN_BYTES_MAX,
    ],
)
def test_a_first_message_that_breaks_a_rule_is_refused(token: bytes) -> None:
    problem = refused(server(), token)
    assert problem.told is None


def test_an_authorization_id_is_the_name_itself_or_refused() -> None:
    made = server()
    answer = made.respond(f"n,a=user,n=user,r={CLIENT_NONCE}".encode())
    assert answer == CHALLENGE
    told = refused(server(), b"n,a=admin,n=user,r=abc").told
    assert told is not None
    assert "authorization id that is different" in told


def test_tokenauth_that_asks_for_nothing_is_let_by() -> None:
    assert server().respond(FIRST + b",tokenauth=false") == CHALLENGE


def test_the_binding_must_be_that_of_the_first_message() -> None:
    made = server()
    made.respond(f"n,a=user,n=user,r={CLIENT_NONCE}".encode())
    assert "channel binding" in str(refused(made, FINAL))


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (FINAL.replace(SERVER_NONCE.encode(), b""), "nonce"),  # CVE-2024-56128
        (FINAL.replace(CLIENT_NONCE.encode(), b"x" * 20), "nonce"),
        (FINAL.replace(b"k0,", b"k1,"), "nonce"),
        (FINAL.replace(b"k0,", b"k00,"), "nonce"),
        (FINAL.replace(b"c=biws", b"c=eSws"), "channel binding"),
        (FINAL.replace(b"c=biws", b"c=biw"), "base64"),
        (FINAL.replace(b",p=", b",x=1,p="), "extension x"),
        (FINAL.replace(PROOF.encode(), b"AAAA"), "another length"),
        (FINAL.replace(PROOF.encode(), base64.b64encode(bytes(32))), "wrong password"),
        (FINAL.replace(b"dHzb", b"eHzb"), "wrong password"),
        (FINAL.partition(b",p=")[0], "that is none"),
        (FINAL + b",x=1", "that is none"),
        (FINAL.replace(b"c=biws,", b""), "that is none"),
        (b"\xff", "that is none"),
        (b"", "that is none"),
    ],
)
def test_a_last_message_that_breaks_a_rule_is_refused(token: bytes, why: str) -> None:
    assert why in str(refused(begun(), token))


def test_after_a_refusal_no_second_proof_is_taken() -> None:
    made = begun()
    refused(made, FINAL.replace(b"dHzb", b"eHzb"))
    refused(made, FINAL)


def test_nothing_is_taken_behind_the_end() -> None:
    made = begun()
    made.respond(FINAL)
    with pytest.raises(SaslRefused):
        made.respond(FIRST)
    assert made.user == "user"


def test_an_unknown_user_sees_what_others_see_and_fails_at_the_end() -> None:
    answers = []
    for _ in range(2):
        made = server(None)
        answers.append(made.respond(FIRST))
    assert answers[0] == answers[1]  # the salt is the same each time, as a real one is
    assert answers[0].endswith(b",i=4096")
    assert scram.parse_server_first(answers[0]).salt != SALT
    other = ScramServer(SHA_256, lambda user: None, SERVER_NONCE, b"another broker's")
    assert other.respond(FIRST) != answers[0]
    made = server(None)
    made.respond(FIRST)
    assert refused(made, FINAL).told is None


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_nobody_becomes_a_user_that_is_not_there(mechanism: Mechanism) -> None:
    # Even if the keys behind the disguise were those of a password that somebody knows.
    made = server(None, mechanism)
    client = ScramClient(mechanism, "user", Secret("pencil"), CLIENT_NONCE)
    challenge = made.respond(client.first())
    salt = scram.parse_server_first(challenge).salt
    made._credential = scram.make_credential(mechanism, Secret("pencil"), salt, 4096)
    refused(made, client.respond(challenge) or b"")


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (CHALLENGE.replace(CLIENT_NONCE.encode(), b"other"), "nonce"),
        (CHALLENGE.replace(SERVER_NONCE.encode(), b""), "nonce"),
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "rounds"),
        (CHALLENGE.replace(b"i=4096", b"i=1000001"), "rounds"),
        (CHALLENGE.replace(b"i=4096", b"i=0"), "that is none"),
        (CHALLENGE.replace(b"s=W", b"s="), "base64"),
        (b"m=x," + CHALLENGE, "that is none"),
    ],
)
def test_a_client_refuses_a_server_that_breaks_a_rule(challenge: bytes, why: str) -> None:
    client = ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    with pytest.raises(SaslRefused, match=why):
        client.respond(challenge)


@pytest.mark.parametrize("token", [SIGNED.replace(b"6rri", b"7rri"), b"e=other-error", b"v=", b""])
def test_a_client_refuses_a_server_that_does_not_know_the_password(token: bytes) -> None:
    client = ScramClient(SHA_256, "user", Secret("pencil"), CLIENT_NONCE)
    client.respond(CHALLENGE)
    with pytest.raises(SaslRefused):
        client.respond(token)


def test_a_credential_is_kept_as_kafka_keeps_it() -> None:
    text = scram.encode_credential(KEPT)
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert scram.decode_credential(SHA_256, text) == KEPT


@pytest.mark.parametrize(
    ("old", "new"),
    [("salt=", "sal="), ("iterations=4096", "iterations=x"), (",iterations=4096", ""),
     ("stored_key=WG5d", "stored_key=WG5"), ("server_key=wfPLw", "server_key="),
     ("salt=W22ZaJ0SNY7soEsUEjb6gQ==", "salt="), ("iterations=4096", "iterations=4096,x=1")],
)  # fmt: skip
def test_what_is_no_credential_is_refused_and_not_shown(old: str, new: str) -> None:
    text = scram.encode_credential(KEPT).replace(old, new)
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        scram.decode_credential(SHA_256, text)
    assert "WG5d" not in str(raised.value)
    with pytest.raises(ValueError):  # noqa: PT011
        scram.decode_credential(SHA_512, scram.encode_credential(KEPT))


def test_secrets_show_themselves_to_nobody() -> None:
    assert "pencil" not in repr([Secret("pencil")]) + str(Secret("pencil"))
    assert repr(KEPT.salt) not in repr(KEPT)
    with pytest.raises(TypeError):
        Secret("pencil").__reduce__()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_every_name_survives_its_escaping(name: str) -> None:
    first = scram.parse_client_first(f"n,,n={scram.escape(name)},r=abc".encode())
    assert first.user == name


@given(
    st.binary() | st.text(st.sampled_from("n,=ym,arcipvb3D2C/+ \0"), max_size=40).map(str.encode)
)
def test_whatever_comes_is_parsed_or_refused(token: bytes) -> None:
    for parse in (
        scram.parse_client_first, scram.parse_client_final, scram.parse_server_first,
        scram.parse_server_final,
    ):  # fmt: skip
        try:
            parse(token)
        except SaslRefused:
            continue
