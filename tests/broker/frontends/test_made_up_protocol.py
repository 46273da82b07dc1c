"""A protocol that adds its own room and one row is served, configured, protected, administered.

It is played in a process of its own (`tests/support/made_up/play.py`), where its row is part of the
table from the start.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
Facts = dict[str, Any]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """The answers to its clients, to Kafka's and to administrators."""
    played = subprocess.run(
        [sys.executable, "-m", "tests.support.made_up.play", str(tmp_path_factory.mktemp("p"))],
        capture_output=True, text=True, timeout=240, cwd=ROOT, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    found: Facts = json.loads(played.stdout)
    return found


def test_its_listeners_answer_with_and_without_tls(facts: Facts) -> None:
    assert facts["plain"] == "heard: hello\n"
    assert facts["tls"] == "heard: secret\n"


def test_its_listener_is_parsed_with_its_default_port(facts: Facts) -> None:
    assert facts["config"]["listeners"] == ["PLAINTEXT://127.0.0.1:9092", "ECHO://127.0.0.1:7007"]
    assert facts["config"]["warnings"] == []


def test_its_listener_is_refused_beyond_loopback_without_tls(facts: Facts) -> None:
    assert facts["config"]["ECHO://0.0.0.0"] == (
        "listeners=ECHO://0.0.0.0:7007: open to other machines without encryption; let it speak"
        " ECHOS; to allow that, start with --insecure or set insecure.listeners=true"
    )
    assert "NOISE" in facts["config"]["NOISE://127.0.0.1:1"]


def test_its_settings_are_accepted_and_documented(facts: Facts) -> None:
    assert facts["config"]["greeting"] == "x"
    documented = "\n".join(facts["config"]["docs"])
    assert "`echo.greeting`" in documented
    assert "The first words of each echo." in documented
    assert "ECHO://host is for clients that like to hear themselves." in documented


def test_kafkas_admin_apis_do_to_its_topics_what_the_row_allows(facts: Facts) -> None:
    told = facts["topics"]
    assert told["internal"]
    assert told["create"] == (
        "POLICY_VIOLATION: __echo.more is kept for an echo: say a line, which makes it"
    )
    assert told["configs"] == (
        "POLICY_VIOLATION: __echo.lines is kept for an echo: its settings are the echo's"
    )
    assert told["partitions"] is None, "the row allows it"
    assert told["delete"] is None
    assert "deleted __echo.lines" in facts["operations"]["list"]["lines"], "by its own keeper"


def test_an_operation_of_the_protocol_is_called_and_audited(facts: Facts) -> None:
    told = facts["operations"]
    assert told["list"] == {"lines": ["hello", "secret", "deleted __echo.lines"]}
    assert told["forget"] == 1
    assert told["wrong"] == "INVALID_REQUEST: line.forget: line 7 is no text"
    assert told["unknown"] == "INVALID_REQUEST: no operation 'line.shout' is known here"
    lines = [line for line in facts["audit"] if "AMQP_ADMINISTRATION" in line]
    assert len(lines) == 2, "a line for each call that was to change something"
    assert lines[0].startswith("changed ")
    assert "operation=line.forget" in lines[0]
    assert "hello" in lines[0]
    assert lines[1].startswith("not changed ")
    assert "result=INVALID_REQUEST" in lines[1]


def test_its_files_end_with_the_process(facts: Facts) -> None:
    assert not facts["left"]


def test_the_command_has_its_group_and_its_flag(facts: Facts) -> None:
    assert facts["config"]["command"]
    assert facts["config"]["dev"] == ["amqp_port", "management_port", "echo_port"]
