"""`headrace profile`: addresses under names, in one file, where no -b is given."""

import json
import os
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.profile_file import load
from tests.support.security.certificates import Authority


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HEADRACE_PROFILE", "HEADRACE_BOOTSTRAP", "HEADRACE_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "headrace" / "profiles.json"


def profile(*words: str) -> int:
    return command(["profile", *words])


def port(options: BrokerOptions) -> int:
    return options.client().bootstrap[0].port


def test_the_first_profile_is_used_and_others_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert port(BrokerOptions()) == 9092, "without any"
    assert profile("create", "a", "-b", "h:1,h:2") == 0
    assert profile("create", "b", "-b", "h:3") == 0
    assert port(BrokerOptions()) == 1
    assert profile("use", "b") == 0
    assert port(BrokerOptions()) == 3
    monkeypatch.setenv("HEADRACE_PROFILE", "a")
    assert port(BrokerOptions()) == 1, "a shell's own comes before the file's"
    assert port(BrokerOptions(bootstrap="h:7")) == 7, "-b wins"
    assert port(BrokerOptions(settings=("brokers=h:8",))) == 8
    monkeypatch.setenv("HEADRACE_PROFILE", "nobody")
    with pytest.raises(CommandError, match="there is no profile nobody; there are: a, b"):
        BrokerOptions().client()


def test_a_profile_may_be_named_for_one_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    profile("create", "a", "-b", "127.0.0.1:1")
    profile("create", "b", "-b", "127.0.0.1:2")
    monkeypatch.setenv("HEADRACE_PROFILE", "a")
    for variable in ("", "127.0.0.1:3"):
        if variable:
            monkeypatch.setenv("HEADRACE_BOOTSTRAP", variable)
        assert command(["topic", "list", "--profile", "b", "--request-timeout", "1"]) == 3
        assert "127.0.0.1:2" in capfd.readouterr().err
    assert command(["topic", "list", "--profile", "b", "-b", "127.0.0.1:1"]) == 2
    assert "--profile and --bootstrap-server cannot be combined" in capfd.readouterr().err
    assert command(["topic", "list", "--profile", "c"]) == 4
    assert "there is no profile c; there are: a, b" in capfd.readouterr().err


def test_an_address_in_the_environment_wins_over_the_profile(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    profile("create", "a", "-b", "127.0.0.1:1")
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "127.0.0.1:2")
    assert command(["topic", "list", "--request-timeout", "1"]) == 3
    assert "127.0.0.1:2" in capfd.readouterr().err


def test_the_file_is_for_its_owner_alone_whatever_the_umask_is(config: Path) -> None:
    before = os.umask(0)
    try:
        profile("create", "a", "-b", "h:1")
        profile("create", "b", "-b", "h:1")
    finally:
        os.umask(before)
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in config.parent.iterdir()] == [config.name]


def test_profiles_are_listed_shown_changed_and_deleted(
    capfd: pytest.CaptureFixture[str],
) -> None:
    profile("create", "a", "-b", "h:1")
    assert profile("create", "a", "-b", "h:2") == 1
    assert "--overwrite" in capfd.readouterr().err
    assert profile("create", "a", "-b", "h:2", "--overwrite") == 0
    assert profile("create", "b", "-b", "h:3", "--use") == 0
    capfd.readouterr()
    assert profile("list", "--json") == 0
    assert json.loads(capfd.readouterr().out) == [
        {"profile": "a", "bootstrap": "h:2", "used": False, "settings": {}},
        {"profile": "b", "bootstrap": "h:3", "used": True, "settings": {}},
    ]
    assert profile("show") == 0
    assert capfd.readouterr().out == "name  bootstrap\nb     h:3\n"
    assert profile("delete", "b") == 0
    assert profile("show") == 4
    assert profile("show", "b") == 4
    assert profile("use", "b") == 4
    assert profile("delete", "b") == 4
    assert port(BrokerOptions()) == 9092, "the one that was used is gone, and no other takes over"


def test_what_is_no_address_is_refused(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert profile("create", "a", "-b", "h:port") == 2
    assert profile("create", " ", "-b", "h:1") == 2
    assert not config.exists()


def test_a_file_that_is_none_is_named(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config.parent.mkdir(parents=True)
    for content in ("{", "[]", '{"profiles": {"a": 1}}', '{"profiles": []}'):
        config.write_text(content)
        assert profile("list") == 1
        assert str(config) in capfd.readouterr().err


SECRET = "planted-secret-3391"
SASL = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\n"
    f"sasl.password={SECRET}\nbootstrap.servers=h:5\nacks=all\n"
)


def test_a_profile_keeps_the_settings_of_a_file_and_shows_no_secret(
    config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(SASL)
    assert profile("create", "p", "--command-config", str(file)) == 0
    for words in (["show"], ["show", "--json"], ["list"], ["list", "--json"]):
        assert profile(*words) == 0
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err
    assert "***" in said.out
    assert "SASL_PLAINTEXT" in said.out
    assert SECRET not in repr(load())
    client = BrokerOptions().client()
    assert client.bootstrap[0].port == 5
    assert client.credentials is not None
    assert client.credentials.password.reveal() == SECRET
    assert "acks" not in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600


def test_a_password_is_read_from_a_file_or_typed_and_never_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["-b", "h:1", "--set", "security.protocol=SASL_PLAINTEXT"]
    words += ["--set", "sasl.mechanism=PLAIN", "--set", "sasl.username=alice"]
    assert profile("create", "p", *words) == 2
    assert "--password-file" in capfd.readouterr().err
    (tmp_path / "password").write_text(f"{SECRET}\n")
    assert profile("create", "p", *words, "--password-file", str(tmp_path / "password")) == 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"typed for {prompt}")
    assert profile("create", "q", *words) == 0
    for name, password in (("p", SECRET), ("q", "typed for password of alice: ")):
        credentials = BrokerOptions(profile=name).client().credentials
        assert credentials is not None
        assert credentials.password.reveal() == password
    for secret in ("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"):
        assert profile("create", "r", "-b", "h:1", "--set", f"{secret}={SECRET}") == 2
        said = capfd.readouterr().err
        assert "a secret is for all to see on a command line" in said
        assert SECRET not in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("security.protocol=TLS", "security.protocol=TLS: must be one of"),
        ("ssl.ca.location=x", "security.protocol: missing"),
        ("security.protocol=SSL\nssl.truststore.location=/none", "no such file"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "sasl.mechanism=GSSAPI"),
    ],
)
def test_settings_nobody_could_connect_by_are_refused_when_they_are_kept(
    config: Path, tmp_path: Path, text: str, complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert profile("create", "p", "-b", "h:1", "--command-config", str(file)) == 2
    assert complaint in capfd.readouterr().err
    assert not config.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_with_passwords_that_others_may_use_is_refused(
    config: Path, tmp_path: Path, mode: int, capfd: pytest.CaptureFixture[str]
) -> None:
    profile("create", "a", "-b", "h:1")
    config.chmod(mode)
    assert profile("list") == 0, "addresses are no secret"
    file = tmp_path / "client.properties"
    file.write_text(SASL)
    assert profile("create", "p", "--command-config", str(file)) == 0
    config.chmod(mode)
    capfd.readouterr()
    assert profile("list") == 1
    assert f"chmod 600 {config}" in capfd.readouterr().err
    assert command(["topic", "list"]) == 1
    assert command(["topic", "list", "-b", "127.0.0.1:1"]) == 3, "no profile is looked at"


def test_settings_are_one_places_and_never_two_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def user(**given: object) -> tuple[int, str | None]:
        client = BrokerOptions(**given).client()  # type: ignore[arg-type]
        return client.bootstrap[0].port, client.credentials and client.credentials.user

    files = {}
    for name in ("alice", "bob"):
        files[name] = tmp_path / name
        files[name].write_text(SASL.replace("alice", name).replace("bootstrap.servers=h:5\n", ""))
    profile("create", "plain", "-b", "h:1")
    profile("create", "p", "-b", "h:2", "--command-config", str(files["alice"]), "--use")
    assert user() == (2, "alice")
    assert user(bootstrap="h:7") == (7, None), "a profile's password is for its brokers alone"
    assert user(settings=("brokers=h:8",)) == (8, None)
    assert user(command_config=files["bob"]) == (2, "bob")
    assert user(profile="p", command_config=files["bob"]) == (2, "bob")
    monkeypatch.setenv("HEADRACE_COMMAND_CONFIG", str(files["bob"]))
    assert user(command_config=files["bob"]) == (2, "bob")
    assert user(profile="p", command_config=files["bob"]) == (2, "alice"), "a flag wins"
    assert user(profile="plain", command_config=files["bob"]) == (1, "bob")
    with pytest.raises(UsageError, match="cannot be combined"):
        user(profile="p", settings=("brokers=h:8",))


def test_what_is_wrong_in_a_profile_names_it(config: Path) -> None:
    profile("create", "p", "-b", "h:1")
    config.write_text(
        config.read_text().replace('"h:1"', '"h:1", "settings": {"security.protocol": "X"}')
    )
    with pytest.raises(UsageError, match=r"^profile p: security\.protocol=X"):
        BrokerOptions().client()
    config.write_text(config.read_text().replace('{"security.protocol": "X"}', "[]"))
    with pytest.raises(CommandError, match="is not a valid profile file"):
        BrokerOptions().client()


def test_places_of_files_hold_in_every_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.chdir(tmp_path)
    trusted = f"ssl.truststore.location={authority.certificate.name}"
    assert profile("create", "p", "-b", "h:1", "--set", "security.protocol=SSL", "-X", trusted) == 0
    monkeypatch.chdir("/")
    assert BrokerOptions().client().bootstrap[0].port == 1
