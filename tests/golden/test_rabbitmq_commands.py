"""The comparison with the recorded commands of RabbitMQ's tools finds what differs (ADR 93)."""

import json
import re
from collections.abc import Callable

import pytest

from tests.outside.amqp.management.clients import Clients
from tests.outside.amqp.management.commands import (
    Done,
    command_differences,
    commands,
    replayed_commands,
)
from tests.outside.amqp.management.differences import COMMANDS, NOT_BUILT, read_explained
from tests.outside.amqp.management.recordings import COMMANDS as RECORDED
from tests.outside.amqp.management.recordings import load
from tests.outside.amqp.management.replay import NODE, Line
from tests.support.listed_differences import fits, unexplained

SCENARIO = list(commands())
OWN_NODE = "rabbit@peer"


@pytest.fixture(scope="module")
def golden() -> dict[str, Line]:
    """The recording, which tests do not change."""
    return load(RECORDED)


class RecordedTools:
    """Ends each command as recorded, and plays no clients."""

    def __init__(self, golden: dict[str, Line]) -> None:
        self._golden = golden
        self._commands = iter([command for command in SCENARIO if command.tool])

    def run(self, tool: str, *words: str) -> Done:
        """End a command."""
        command = next(self._commands)
        assert tool == command.tool
        assert NODE not in words
        line = self._golden.get(command.id, {"exit": 0})
        stdout, stderr = (line.get(name, "").replace(NODE, OWN_NODE) for name in Done._fields[1:])
        return Done(line["exit"], stdout, stderr)

    def play(self, name: str) -> None:
        """Accept a step of clients."""
        assert hasattr(Clients, name)


def replayed(golden: dict[str, Line]) -> dict[str, Line]:
    """Return the ends of commands of tools that end as recorded."""
    tools = RecordedTools(golden)
    return {line["id"]: line for line in replayed_commands(tools.run, tools, OWN_NODE)}


def test_a_replay_of_the_recorded_commands_equals_the_recording(golden: dict[str, Line]) -> None:
    assert [command.id for command in SCENARIO if command.recorded] == list(golden)
    assert len(golden) == 135
    assert list(command_differences(golden, golden, SCENARIO)) == []
    assert list(command_differences(golden, replayed(golden), SCENARIO)) == []


def test_recorded_outputs_name_no_machine_and_no_path(golden: dict[str, Line]) -> None:
    assert not re.search(r"/(home|root|tmp|var|work|usr|opt)/|\w@\w", json.dumps(golden))


LIST = "rabbitmqctl list_queues -p ctl"
JSON_LIST = "rabbitmqctl list_queues -p ctl --formatter json name messages arguments"
NO_QUEUE = "rabbitmqctl delete_queue -p ctl nosuch"
Change = Callable[[Line], object]


def edited(output: str, old: str, new: str) -> Change:
    """Return a change of a text in an output."""

    def change(line: Line) -> None:
        assert old in line[output]
        line[output] = line[output].replace(old, new)

    return change


def changed(golden: dict[str, Line], command: str, change: Change) -> dict[str, Line]:
    """Return the recording with another end of one command."""
    line = dict(golden[command])
    change(line)
    return {**golden, command: line}


@pytest.mark.parametrize(
    ("command", "change", "field"),
    [
        ("rabbitmqctl status", lambda it: it.update(exit=1), "exit"),
        (NO_QUEUE, lambda it: it.update(exit=1), "exit"),
        (NO_QUEUE, edited("stderr", "No such", "Unknown"), "stderr/*"),
        (LIST, edited("stdout", "name\tmessages", "messages\tname"), "stdout/*"),
        (LIST, edited("stdout", "q2\t3\n", ""), "stdout/length"),
        (JSON_LIST, edited("stdout", '"messages":3,', ""), "stdout/*/messages"),
        (JSON_LIST, edited("stdout", '"messages":3', '"messages":"3"'), "stdout/*/messages"),
    ],
)
def test_a_planted_difference_of_a_command_is_found(
    golden: dict[str, Line], command: str, change: Change, field: str
) -> None:
    other = replayed(changed(golden, command, change))
    found = list(command_differences(golden, other, SCENARIO))
    assert {(each.call, each.field) for each in found} == {(command, field)}


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (LIST, edited("stdout", "q2\t3\nq1\t3\n", "q1\t3\nq2\t3\n")),
        ("rabbitmqctl list_connections", edited("stdout", "\t44002\t", "\t50112\t")),
        ("rabbitmqctl list_channels", edited("stdout", ".48801.0>", ".9.1>")),
        (JSON_LIST, edited("stdout", '"messages":3', '"ours":1,"messages":3')),
    ],
)
def test_a_value_of_one_run_is_no_difference_of_a_command(
    golden: dict[str, Line], command: str, change: Change
) -> None:
    other = replayed(changed(golden, command, change))
    assert list(command_differences(golden, other, SCENARIO)) == []


def test_each_command_that_is_not_built_has_a_row(golden: dict[str, Line]) -> None:
    rows = read_explained(COMMANDS)
    assert all(re.fullmatch(f"{NOT_BUILT}[A-J][0-9]+", row.reason) for row in rows)
    for row in rows:
        patterns = row.call.split(" | ")
        assert all(any(fits(command, pattern) for command in golden) for pattern in patterns), row
    found = list(command_differences(golden, {}, SCENARIO))
    assert len(found) == len(golden)
    assert unexplained(found, rows) == ([], [])
