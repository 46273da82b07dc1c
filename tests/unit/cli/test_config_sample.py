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
ROOT = Path(__file__).parents[3]


def test_the_sample_is_the_file_in_deploy(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["config", "sample"]) == 0
    assert capsys.readouterr().out == (ROOT / "deploy/server.properties").read_text()


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
