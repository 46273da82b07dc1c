"""The commented server.properties, and words of older Kafkas."""

import re
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.config.broker import load
from headrace.config.definitions import BROKER

EXAMPLES = {
    "listeners", "advertised.listeners", "log.dirs", "amqp.guest", "broker.id", "zookeeper.connect",
    "metrics.listener", "log.retention.hours",
}  # fmt: skip
"""Keys whose lines are examples, not defaults."""
SAMPLES = Path(__file__).parents[3] / "src" / "headrace" / "config" / "samples"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((), "server.properties"),
        (("broker",), "server.properties"),
        (("systemd",), "headrace.service"),
        (("grafana",), "headrace-dashboard.json"),
        (("prometheus",), "headrace-alerts.yml"),
    ],
)
def test_config_sample_prints_the_file(
    words: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["config", "sample", *words]) == 0
    assert capsys.readouterr().out == (SAMPLES / name).read_text()


def test_each_sample_file_is_printed_by_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for word in ("broker", "systemd", "grafana", "prometheus"):
        command(["config", "sample", word])
        printed.append(capsys.readouterr().out)
    assert sorted(printed) == sorted(path.read_text() for path in SAMPLES.iterdir())


def test_config_sample_of_an_unknown_file_names_those_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(["config", "sample", "nagios"]) == 2
    assert "prometheus" in capsys.readouterr().err


def test_every_line_of_the_sample_is_a_setting_that_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command(["config", "sample"])
    lines = capsys.readouterr().out.splitlines()
    settings = [line[1:] for line in lines if re.match(r"#[a-z.]+=", line)]
    assert len(settings) >= 18
    for setting in settings:
        name, _, value = setting.partition("=")
        _, warnings = load(setting)
        assert not [warning for warning in warnings if warning.startswith(name)], setting
        default = BROKER[name].default
        if name not in EXAMPLES:
            assert value == str(default).lower(), setting


@pytest.mark.parametrize(
    "flag", [["--zookeeper", "localhost:2181"], ["--zookeeper=localhost:2181"]]
)
@pytest.mark.parametrize(
    "verb",
    [["topic", "create", "orders"], ["topic", "list"], ["config", "list"], ["group", "list"]],
)
def test_the_former_flag_of_kafkas_tools_names_what_to_write(
    verb: list[str], flag: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([*verb, *flag]) == 2
    told = capsys.readouterr().err
    assert told.startswith("headrace: --zookeeper: Kafka's tools lost this flag in Kafka 3")
    assert "--bootstrap-server HOST:PORT" in told
    assert told.count("\n") == 1
