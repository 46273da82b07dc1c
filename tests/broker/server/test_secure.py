"""What `--secure` keeps beside the data: made once, completed, renewed, damage told."""

import datetime
import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config.authentication.jaas import parse_jaas
from headrace.config.broker import load
from headrace.config.installing import install_command
from headrace.config.properties import parse
from headrace.model.errors import ConfigError
from headrace.model.secret import Secret
from headrace.server.secure import preparation
from headrace.server.secure.client_files import JAVA, LIBRDKAFKA, SPARK, client_files
from headrace.server.secure.locked_config import prepare
from headrace.server.secure.preparation import (
    AUTHORITY,
    AUTHORITY_KEY,
    BROKER,
    PASSWORD,
    USER_MADE,
    Secured,
)

NOW = datetime.datetime(2030, 5, 6, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
MADE = (AUTHORITY_KEY, AUTHORITY, BROKER, PASSWORD)
"""In the order in which they are made."""


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """The process's mask, which `prepare` narrows."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def secured(data: Path, now: datetime.datetime = NOW, **settings: str) -> Secured:
    given = {"listeners": "SASL_SSL://127.0.0.1:0", "ssl.keystore.location": "x"}
    given |= {name.replace("_", "."): value for name, value in settings.items()}
    return Secured(load("", {}, {**given, "log.dirs": str(data)})[0], "machine", now)


def contents(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (data / "headrace-secure").iterdir()}


def test_all_is_made_once_for_its_owner_alone(data: Path) -> None:
    os.umask(0)
    first = secured(data)
    before = contents(data)
    assert set(before) == set(MADE)
    place = data / "headrace-secure"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    again = secured(data)
    assert contents(data) == before
    assert first.password is not None
    assert again.password is not None
    assert first.password.reveal() == again.password.reveal()
    assert len(first.password.reveal()) == 40


@pytest.mark.parametrize("there", range(len(MADE)))
def test_a_start_that_ended_in_the_middle_is_completed(data: Path, there: int) -> None:
    secured(data)
    whole = contents(data)
    for name in MADE[there:]:
        (data / "headrace-secure" / name).unlink()
    (data / "headrace-secure" / f"{MADE[there]}.tmp").write_bytes(whole[MADE[there]][:20])
    secured(data)
    found = contents(data)
    assert set(MADE) <= set(found)
    assert {name: found[name] for name in MADE[:there]} == {
        name: whole[name] for name in MADE[:there]
    }


def test_a_certificate_that_ends_soon_is_made_anew_by_the_same_authority(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    until = secured(data).certificate_until
    before = contents(data)
    assert secured(data, until - 31 * DAY).certificate_until == until
    later = secured(data, until - 29 * DAY)
    after = contents(data)
    assert later.certificate_until > until
    assert after[AUTHORITY] == before[AUTHORITY]
    assert after[BROKER] != before[BROKER]
    assert f"it expires on {until:%Y-%m-%d}" in caplog.text


def test_a_broker_that_runs_for_years_renews_too(data: Path) -> None:
    running = secured(data)
    before = contents(data)
    running.look(running.certificate_until - 31 * DAY)
    assert contents(data) == before
    running.look(running.certificate_until - 29 * DAY)
    assert contents(data)[BROKER] != before[BROKER]


def test_an_authority_that_ends_soon_goes_on_with_its_key(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secured(data)
    before = contents(data)
    secured(data, NOW + 3640 * DAY)
    after = contents(data)
    assert after[AUTHORITY_KEY] == before[AUTHORITY_KEY]
    assert after[AUTHORITY] != before[AUTHORITY]
    assert "give the new file to all clients" in caplog.text


def test_another_advertised_name_is_another_certificate(data: Path) -> None:
    secured(data)
    before = contents(data)
    secured(data, advertised_listeners="SASL_SSL://broker.example:9093")
    assert contents(data)[BROKER] != before[BROKER]
    names = preparation.names_of(
        load("", {}, {
            "listeners": "SASL_SSL://:9093,B://10.0.0.1:9094", "ssl.keystore.location": "x",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,B:SASL_SSL",
            "advertised.listeners": "SASL_SSL://broker.example:9093",
        })[0],
        "machine",
    )  # fmt: skip
    assert names == ["machine", "broker.example", "10.0.0.1", "localhost", "127.0.0.1", "::1"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (AUTHORITY_KEY, None, "authority.key: it is missing"),
        (AUTHORITY_KEY, b"garbage", "not a private key in PEM"),
        (AUTHORITY, b"garbage", "not a certificate in PEM"),
        (PASSWORD, b"\n", "its first line is empty: write the password of admin there"),
    ],
)
def test_damage_is_told_with_its_remedy_and_nothing_is_made_over_it(
    data: Path, name: str, content: bytes | None, said: str
) -> None:
    secured(data)
    path = data / "headrace-secure" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    before = contents(data)
    with pytest.raises(ConfigError) as refused:
        secured(data)
    assert said in str(refused.value)
    assert str(data) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert contents(data) == before


def test_a_damaged_certificate_of_the_broker_is_made_anew(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secured(data)
    path = data / "headrace-secure" / BROKER
    path.write_bytes(path.read_bytes()[:300])
    secured(data)
    assert "broker.pem was renewed by the same authority: it is damaged" in caplog.text
    secured(data)


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_directory_that_others_may_use_is_refused(data: Path, mode: int) -> None:
    secured(data)
    (data / "headrace-secure").chmod(mode)
    with pytest.raises(ConfigError, match="chmod -R go="):
        secured(data)


def test_something_else_in_the_directorys_place_is_refused(data: Path, tmp_path: Path) -> None:
    data.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (data / "headrace-secure").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="headrace-secure"):
        secured(data)
    assert list(elsewhere.iterdir()) == []


def test_a_password_that_was_removed_is_not_made_anew_once_the_user_was(data: Path) -> None:
    first = secured(data)
    first.note_user()
    (data / "headrace-secure" / PASSWORD).unlink()
    again = secured(data)
    assert again.password is None
    again.write_clients("h:1")
    assert set(contents(data)) == {AUTHORITY_KEY, AUTHORITY, BROKER, USER_MADE}
    assert again.facts()["clients"] == []


def test_clients_files_say_one_thing_in_three_ways() -> None:
    files = client_files("h:9093", "/a dir/authority.pem", "admin", Secret("p4ss"))
    java, librdkafka = parse(files[JAVA]), parse(files[LIBRDKAFKA])
    spark = json.loads(files[SPARK])
    assert {name.removeprefix("kafka."): value for name, value in spark.items()} == java
    line = parse_jaas(java["sasl.jaas.config"]).options
    assert {name: secret.reveal() for name, secret in line.items()} == {
        "username": librdkafka["sasl.username"], "password": librdkafka["sasl.password"],
    }  # fmt: skip
    assert java["ssl.truststore.type"] == "PEM"
    assert java["ssl.truststore.location"] == librdkafka["ssl.ca.location"]
    assert java["ssl.truststore.location"] == "/a dir/authority.pem"
    for settings in (java, librdkafka):
        assert settings["bootstrap.servers"] == "h:9093"
        assert settings["security.protocol"] == "SASL_SSL"
        assert settings["sasl.mechanism"] == "SCRAM-SHA-512"


def test_clients_files_follow_the_address_and_are_left_alone_while_it_is_the_same(
    data: Path,
) -> None:
    made = secured(data)
    made.write_clients("h:1")
    path = data / "headrace-secure" / JAVA
    stamp = path.stat().st_ino
    made.write_clients("h:1")
    assert path.stat().st_ino == stamp
    made.write_clients("h:2")
    assert "bootstrap.servers=h:2" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_configuration_is_locked_and_keeps_what_it_was_given(data: Path) -> None:
    config, warnings, _ = prepare("super.users=User:bob\n", {"log.dirs": str(data)})
    assert [str(listener) for listener in config.listeners] == ["SASL_SSL://127.0.0.1:9092"]
    assert config.super_users == "User:bob;User:admin"
    assert config.authorizer_class_name.endswith("StandardAuthorizer")
    assert config.sasl["SASL_SSL"].mechanisms == ("SCRAM-SHA-512",)
    assert config.values["ssl.keystore.location"] == str(data / "headrace-secure" / BROKER)
    assert warnings == []
    assert not config.insecure_listeners
    public = {"log.dirs": str(data), "listeners": "SASL_SSL://0.0.0.0:9093"}
    assert prepare("", public).config.listeners[0].everywhere


def test_files_made_from_then_on_are_their_owners_alone_and_others_are_named(data: Path) -> None:
    data.mkdir(mode=0o755)
    (warning,) = prepare("", {"log.dirs": str(data)}).warnings
    assert "other users of this machine can read its secrets: chmod go-rwx" in warning
    assert os.umask(0o022) == 0o077


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, "write SASL_SSL://127.0.0.1:9092, or map"),
        ({"listeners": "SSL://127.0.0.1:9092"}, "--secure opens listeners of SASL_SSL"),
        ({"listeners": "SASL_PLAINTEXT://:9092"}, "--secure opens listeners of SASL_SSL"),
        ({"insecure.listeners": "true"}, "--secure and --insecure: say one of them"),
        (
            {
                "zookeeper.connect": "h:2181",
                "broker.id": "1",
                "listeners": "SASL_SSL://127.0.0.1:0,INSIDE://127.0.0.1:0",
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INSIDE:PLAINTEXT",
                "inter.broker.listener.name": "INSIDE",
            },
            "--secure is for a broker by itself",
        ),
        ({"ssl.keystore.location": "mine.pem"}, "--secure makes the certificate itself"),
        ({"ssl.keystore.type": "PEM"}, "--secure makes the certificate itself"),
        ({"listener.name.sasl_ssl.ssl.keystore.location": "mine.pem"}, "leave one of them out"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "the first user comes by SCRAM-SHA-512"),
        ({"num.partitions": "none"}, "num.partitions=none"),
    ],
)
def test_what_does_not_go_with_it_is_refused_with_the_remedy(
    data: Path, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        prepare("", {"log.dirs": str(data), **settings})
    assert said in str(refused.value)


def test_without_the_library_one_sentence_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "cryptography.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'cryptography'\", name='cryptography')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "serve", "--secure", "--data", str(tmp_path / "d")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "headrace: --secure creates certificates, which needs a library: "
        f"{install_command('cryptography')}\n"
    )
    assert not (tmp_path / "d").exists()


def test_no_secret_is_logged_or_shown(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        made = secured(data)
        made.write_clients("h:1")
    assert made.password is not None
    secret = made.password.reveal()
    assert secret not in caplog.text + repr(made.facts()) + repr(vars(made))
