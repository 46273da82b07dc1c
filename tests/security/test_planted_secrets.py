"""Secrets that are planted in settings, requests and the store are seen nowhere but where they lie.

Looked at: every API's answer, what settings tell, metrics, log lines at DEBUG, error texts, znodes,
and the command line of a process.
"""

import base64
import hashlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.config.authentication.jaas import PLAIN_MODULE
from headrace.config.broker import load
from headrace.frontends.http.routes import PATHS
from headrace.frontends.kafka.authentication.authorisation import NOT_ASKED
from headrace.model.errors import ConfigError
from headrace.model.secret import Secret
from headrace.security.sasl import scram
from headrace.security.sasl.sasl import Mechanism
from headrace.server.assembly import Server
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka.api import VERSIONS, ApiKey
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.security.authorisation import all_nodes
from tests.support.security.authorisation_cases import CASES
from tests.support.security.authorisation_values import FEW
from tests.support.security.certificates import Authority
from tests.support.security.doors import raw
from tests.support.security.permission_table import alone
from tests.support.security.sasl_kit import Knocking, client_of

PLAIN = "planted-plain-5a1"
KEY_PASSWORD = "planted-key-5a2"
STORE_PASSWORD = "planted-store-5a3"
ALTERED = "planted-altered-5a4"
SCRAM = "planted-scram-5a5"
TYPED = "planted-typed-5a6"
SALT = b"planted-salt"
USER_SETTINGS = "/config/users/"
SALTED = hashlib.pbkdf2_hmac("sha512", SCRAM.encode(), SALT, 4096)
CREDENTIAL = scram.make_credential(Mechanism.SCRAM_SHA_512, Secret(SCRAM), SALT, 4096)
TEXTS = [PLAIN, KEY_PASSWORD, STORE_PASSWORD, ALTERED, SCRAM, TYPED]
KEYS = [SALTED, CREDENTIAL.stored_key, CREDENTIAL.server_key]


class Planted(NamedTuple):
    """A broker with secrets in it."""

    broker: BrokerThread
    secrets: list[str]

    def of(self, seen: str) -> list[str]:
        """Return the secrets that are to be seen in a text."""
        return [secret for secret in self.secrets if secret in seen]


def settings_of(directory: Path) -> tuple[dict[str, str], str]:
    """Return settings full of secrets, and a line of the private key that is among them."""
    authority = Authority(directory)
    server = authority.sign()
    key = server.encrypted_key(KEY_PASSWORD).read_text()
    settings = {
        "listener.security.protocol.map": "OPEN:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
        "listener.name.tls.ssl.keystore.key": key.replace("\n", "\\n"),
        "listener.name.tls.ssl.keystore.certificate.chain": server.chain.read_text().replace(
            "\n", "\\n"
        ),
        "listener.name.tls.ssl.key.password": KEY_PASSWORD,
        "listener.name.tls.ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.password": STORE_PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config":
            f'{PLAIN_MODULE} required user_alice="{PLAIN}";',
        "super.users": "User:alice",
        "metrics.listener": "127.0.0.1:0",
        **{name.replace("_", "."): text for name, text in FEW.items()},
    }  # fmt: skip
    return settings, key.splitlines()[2]


def listeners(*ports: int) -> str:
    """Return the listeners of the settings on ports."""
    names = ("OPEN", "SASL", "TLS")
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in zip(names, ports, strict=True))


@pytest.fixture
def planted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Planted]:
    """A broker on which users of every kind have logged in, and failed to."""
    caplog.set_level(logging.DEBUG)
    settings, line = settings_of(tmp_path)
    settings = {name: text.replace("\\n", "\n") for name, text in settings.items()}
    with BrokerThread({**settings, "listeners": listeners(0, 0, 0)}, memory=True) as broker:
        encoded = [form(key) for key in KEYS for form in (scram.encode64, bytes.hex, str)]
        made = Planted(broker, [*TEXTS, line, *encoded])
        with Knocking(broker) as connection:
            assert not made.of(str(change_secrets(connection)))
        for mechanism, password in (
            ("PLAIN", PLAIN), ("PLAIN", TYPED), ("SCRAM-SHA-512", SCRAM), ("SCRAM-SHA-512", TYPED),
        ):  # fmt: skip
            with Knocking(broker, 1) as connection:
                answer = connection.log_in(mechanism, "alice", password)
                assert (answer.error_code == 0) is (password is not TYPED)
                assert not made.of(str(answer))
        with Knocking(broker, 1) as connection:
            connection.handshake("PLAIN", version=0)
            connection.send(client_of("PLAIN", "alice", TYPED).first() + b"\0")
            assert connection.frame() is None
        yield made


def change_secrets(connection: Knocking) -> list[Any]:
    """Set a user's keys and a password of a listener, and one that is refused."""
    upsert = {"name": "alice", "mechanism": 2, "iterations": 4096, "salt": SALT,
              "salted_password": SALTED}  # fmt: skip
    answers = [connection.ask_values(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": [upsert], "deletions": []}
    )]  # fmt: skip
    for name, value in (
        ("listener.name.tls.ssl.keystore.password", ALTERED),
        ("listener.name.tls.ssl.key.password", TYPED),
        ("ssl.keystore.password", TYPED),
        ("no.such.password", TYPED),
    ):
        entry = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": 4, "resource_name": "0", "configs": [entry]}
        answers.append(connection.ask_values(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]}
        ))  # fmt: skip
    assert answers[0].results[0].error_code == 0
    return answers


def test_no_answer_of_any_api_has_a_secret_in_it(planted: Planted) -> None:
    everything = {"resource_type": 4, "resource_name": "0", "configuration_keys": None}
    with Knocking(planted.broker) as connection:
        told = connection.ask_values(ApiKey.DESCRIBE_CONFIGS, 4, {
            "resources": [everything], "include_synonyms": True, "include_documentation": True,
        })  # fmt: skip
        assert "ssl.keystore.password" in str(told)
        assert not planted.of(str(told))
        users = connection.ask_values(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})
        assert "alice" in str(users)
        assert not planted.of(str(users))
    for key in (*CASES, *NOT_ASKED):
        for case in CASES.get(key, [None]):
            planted.broker.create_topics("t")
            with Knocking(planted.broker) as connection:
                values: Any = {} if case is None else case.values
                if callable(values):
                    values = planted.broker.call(partial(_made, values))
                version = VERSIONS[key][1] if case is None else case.version
                answer = connection.ask_values(key, version, values)
                assert not planted.of(str(answer)), key.name
            planted.broker.call(alone)


def test_no_metric_and_no_line_of_the_log_has_a_secret_in_it(
    planted: Planted, caplog: pytest.LogCaptureFixture
) -> None:
    http = planted.broker.server.http
    assert http is not None
    for path in PATHS:
        text = raw(http.address[1], f"GET {path} HTTP/1.0\r\n\r\n".encode()).decode()
        assert text.startswith("HTTP/1.1 ")
        assert not planted.of(text)
    records = [*caplog.get_records("setup"), *caplog.records]
    text = "\n".join(record.getMessage() for record in records)
    assert "authentication by PLAIN failed" in text
    assert "authentication by SCRAM-SHA-512 failed" in text
    assert not planted.of(text)
    assert not planted.of(str([record.__dict__ for record in records]))


def test_what_is_stored_of_secrets_is_in_the_users_own_znode_and_in_no_path(
    planted: Planted,
) -> None:
    nodes = planted.broker.run(_nodes)
    stored = base64.b64encode(CREDENTIAL.stored_key).decode()
    assert [path for path, value in nodes if stored in value] == [USER_SETTINGS + "alice"]
    for path, value in nodes:
        assert not planted.of(path)
        allowed = (
            {scram.encode64(key) for key in KEYS[1:]} if path.startswith(USER_SETTINGS) else set()
        )
        if path == "/config/brokers/0":
            allowed |= {
                ALTERED,
                TYPED,
            }  # as in Kafka without password.encoder.secret: the broker's own node
        assert set(planted.of(value)) <= allowed, path


def _made(values: Callable[[Any], Any], server: Server) -> Any:
    return values(server)


async def _nodes(server: Server) -> list[tuple[str, str]]:
    assert server._store is not None
    return [
        (path, value.decode(errors="replace")) for path, value in await all_nodes(server._store)
    ]


def test_settings_show_no_secret_of_themselves(planted: Planted) -> None:
    config = planted.broker.server.config
    assert not planted.of(repr(config.sasl) + str(config.sasl) + repr(CREDENTIAL))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.tls.ssl.key.password", TYPED),
        ("listener.name.tls.ssl.keystore.key", f"-----BEGIN PRIVATE KEY-----\n{TYPED}"),
        ("listener.name.sasl.plain.sasl.jaas.config", f"NoModule required user_a={TYPED};"),
        ("listener.name.sasl.plain.sasl.jaas.config", f'{PLAIN_MODULE} required user_a="{TYPED}'),
        ("listener.name.tls.ssl.keystore.type", "NONE"),
        ("ssl.key.pasword", TYPED),
    ],
)
def test_a_start_that_fails_names_the_setting_and_shows_no_secret(
    tmp_path: Path, name: str, value: str
) -> None:
    settings, line = settings_of(tmp_path)
    given = {key: text.replace("\\n", "\n") for key, text in settings.items()} | {name: value}
    with pytest.raises(ConfigError) as raised:
        BrokerThread({**given, "listeners": listeners(0, 0, 0)}, memory=True).start()
    told = f"{raised.value} {raised.value!r}"
    assert not [secret for secret in (*TEXTS, line) if secret in told]
    assert name.rpartition(".")[2] in told


def test_a_process_shows_no_secret_on_its_command_line_or_in_its_log(tmp_path: Path) -> None:
    settings, line = settings_of(tmp_path)
    port = free_port()
    broker = BrokerProcess(tmp_path / "broker", port)
    broker.settings |= {**settings, "listeners": listeners(port, free_port(), free_port())}
    with broker:
        assert broker.process is not None
        seen = Path(f"/proc/{broker.process.pid}/cmdline").read_text()
        assert "serve" in seen
        load(flags={"listeners": "PLAINTEXT://127.0.0.1:0"})
        threads = Path(f"/proc/{broker.process.pid}/task")
        seen += "".join(one.read_text() for one in threads.glob("*/comm"))
    assert not [secret for secret in (*TEXTS, line) if secret in seen + broker.output]
