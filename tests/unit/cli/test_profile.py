"""`headrace profile`: addresses under names, in one file, where no -b is given."""

import json
import os
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.cli.shared.broker_options import BrokerOptions
from headrace.cli.shared.failure import CommandError


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HEADRACE_PROFILE", "HEADRACE_BOOTSTRAP"):
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
    assert "--profile and --bootstrap-server: one of them" in capfd.readouterr().err
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
