"""Keys over https: fetched only as they should be, and good ones kept whatever is answered."""

import asyncio
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.config.broker import load
from headrace.config.installing import install_command
from headrace.posix import jwks as posix_jwks
from headrace.posix.clock import RealClock
from headrace.posix.jwks import JwksUnavailable, fetch
from headrace.security.sasl.jwk import JWKS_BYTES_MAX
from headrace.security.sasl.jwt import UnknownKey
from headrace.server.token_keys import TokenKeys
from tests.support.security.certificates import Authority
from tests.support.security.token_kit import claims, jwks, listener_settings, signer

if TYPE_CHECKING:
    from headrace.security.sasl.token_verifier import TokenVerifier

Answer = Callable[[BaseHTTPRequestHandler], None]


class Issuer:
    """A web server with the keys of an issuer."""

    def __init__(self, authority: Authority, alternatives: str = "IP:127.0.0.1") -> None:
        self.asked: list[str] = []
        self.answer: Answer = body(jwks(signer("ES256")))
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        certificate = authority.sign("issuer", alternatives=alternatives)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.both)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def body(data: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
    except OSError:
        pass


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        for number in range(1000):
            handler.wfile.write(f"X-{number}: y\r\n".encode()[:3])
            handler.wfile.flush()
            time.sleep(0.05)
    except OSError:
        pass


def nonsense(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"secret is no HTTP\r\n\r\n")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.certificate))
    return made


@pytest.fixture
def issuer(authority: Authority) -> Iterator[Issuer]:
    made = Issuer(authority)
    yield made
    made.close()


def why(url: str) -> str:
    with pytest.raises(JwksUnavailable) as refused:
        fetch(url, JWKS_BYTES_MAX)
    assert "secret" not in str(refused.value)
    return str(refused.value)


def test_keys_are_fetched(issuer: Issuer) -> None:
    assert fetch(issuer.url + "?a=b", JWKS_BYTES_MAX) == jwks(signer("ES256"))
    assert issuer.asked == ["/keys?a=b"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (body(b"secret", 500), "500 instead of 200"),
        (body(b"secret", 404), "404 instead of 200"),
        (body(b"secret", 204), "204 instead of 200"),
        (body(b"secret", 302, Location="/other"), "302 instead of 200"),
        (body(b"secret", 307, Location="http://127.0.0.1:1/"), "307 instead of 200"),
        (body(b""), "it is empty"),
        (body(b"x" * (JWKS_BYTES_MAX + 1)), "more than 524288 bytes"),
        (endless, "more than 524288 bytes"),
        (nonsense, "invalid HTTP"),
    ],
    ids=range(9),
)
def test_an_answer_that_is_none_is_refused(issuer: Issuer, answer: Answer, reason: str) -> None:
    issuer.answer = answer
    assert reason in why(issuer.url)
    assert issuer.asked == ["/keys"]  # and nowhere else


def test_the_largest_answer_is_taken(issuer: Issuer) -> None:
    issuer.answer = body(b"x" * JWKS_BYTES_MAX)
    assert len(fetch(issuer.url, JWKS_BYTES_MAX)) == JWKS_BYTES_MAX


def test_an_answer_that_does_not_end_is_given_up(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix_jwks, "FETCH_SECONDS_MAX", 0.5)
    issuer.answer = dripping
    began = time.monotonic()
    why(issuer.url)
    assert time.monotonic() - began < 10


def test_who_shows_a_certificate_that_nobody_signed_or_anothers_is_not_asked(
    issuer: Issuer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Issuer(authority, "DNS:elsewhere.example")
    try:
        assert "TLS failed" in why(other.url)
        assert other.asked == []
    finally:
        other.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "stranger").certificate))
    assert "TLS failed" in why(issuer.url)
    assert issuer.asked == []


def test_nobody_there_is_told(issuer: Issuer) -> None:
    assert "refused" in why("https://127.0.0.1:1/keys")


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what another thread does is looked at
        await asyncio.sleep(0.02)


def settings(url: str, **more: str) -> str:
    given = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": url,
        **listener_settings(url),
        **{name.replace("_", "."): text for name, text in more.items()},
    }
    return "\n".join(f"{name}={text}" for name, text in given.items())


def test_good_keys_are_kept_whatever_is_answered_and_newer_ones_are_fetched(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    old, newer = signer("ES256"), signer("EdDSA")
    refresh = "sasl_oauthbearer_jwks_endpoint_"
    config, _ = load(
        settings(issuer.url, **{f"{refresh}refresh_ms": "1000", f"{refresh}retry_backoff_ms": "20",
                                f"{refresh}retry_backoff_max_ms": "50"})
    )  # fmt: skip

    async def story() -> None:
        clock = RealClock(asyncio.get_running_loop())
        verifiers: dict[str, TokenVerifier] = {}
        keys = TokenKeys(config, clock, verifiers)
        await keys.asked()
        verifier = verifiers["SASL"]
        verifier.check(old.token(claims(time.time())))
        for broken in (
            body(b"secret", 500), body(b""), body(b"secret"), body(b'{"keys": []}'),
            body(b"secret", 301, Location="/keys"),
        ):  # fmt: skip
            issuer.answer = broken
            asked = len(issuer.asked)
            await until(lambda asked=asked: len(issuer.asked) >= asked + 2)  # type: ignore[misc]
            verifier.check(old.token(claims(time.time())))
        issuer.answer = body(jwks(newer))
        await until(lambda: ("key-EdDSA", "EdDSA") in verifier.keys)
        verifier.check(newer.token(claims(time.time())))
        with pytest.raises(UnknownKey):
            verifiers["SASL"].check(old.token(claims(time.time())))
        keys.close()
        await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(story(), 60))
    assert "keeps the OAUTHBEARER keys loaded before" in caplog.text
    assert "secret" not in caplog.text


def test_an_unknown_key_has_them_fetched_but_not_for_each_token(issuer: Issuer) -> None:
    config, _ = load(settings(issuer.url))  # once an hour, after failures once in 10 s

    async def story() -> None:
        clock = RealClock(asyncio.get_running_loop())
        verifiers: dict[str, TokenVerifier] = {}
        keys = TokenKeys(config, clock, verifiers)
        await keys.asked()
        (source,) = keys._sources
        for _ in range(20):
            with pytest.raises(UnknownKey):
                verifiers["SASL"].check(signer("EdDSA").token(claims(time.time())))
        assert not source._reading
        source._begun_at -= 10
        for _ in range(20):
            with pytest.raises(UnknownKey):
                verifiers["SASL"].check(signer("EdDSA").token(claims(time.time())))
        await until(lambda: len(issuer.asked) == 2)
        keys.close()

    asyncio.run(asyncio.wait_for(story(), 60))
    assert len(issuer.asked) == 2


def test_without_the_library_the_start_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = settings(f"file:{tmp_path}/keys.json")
    (tmp_path / "server.properties").write_text(f"{text}\nlog.dirs={tmp_path}/data\n")
    program = (
        "import sys; sys.modules['cryptography'] = None;"
        "from headrace.cli.main import main; sys.argv[1:] = sys.argv[1:]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", str(tmp_path / "server.properties")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert install_command("cryptography") in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
