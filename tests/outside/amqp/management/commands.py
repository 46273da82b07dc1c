"""The commands of RabbitMQ's tools that were recorded: `rabbitmqctl` and two others."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.outside.amqp.management.compare import (
    ABSENT,
    Difference,
    Marks,
    arranged,
    shown,
    walk,
)
from tests.outside.amqp.management.replay import NODE, Line, Plays

COMMANDS = Path(__file__).parent / "commands.jsonl"
OUTPUTS = ("stdout", "stderr")
PORTS_MIN = 1000
_PROCESS = re.compile(r"#?(?:PID)?<[\w@.-]+\.\d+\.\d+>")
_NUMBER = re.compile(r"\b\d{4,}\b")
_OF_THE_NODE = re.compile(r"(?m)^(?:cluster_tags|internal_cluster_id|cluster_name)\t.*\n")


@dataclass(frozen=True)
class Command:
    """A line of `commands.jsonl`: a command, or an action of AMQP clients (`client`)."""

    id: str
    tool: str = ""
    args: tuple[str, ...] = ()
    client: str = ""
    recorded: bool = True
    exit_only: bool = False
    """Whether the output is the node's own: the exit code alone is compared."""

    @property
    def is_list(self) -> bool:
        """Whether the order of the output's lines is not promised."""
        return any(word.startswith("list_") for word in self.args)


class Done(NamedTuple):
    """The end of a command."""

    exit: int
    stdout: str
    stderr: str


class Runs(Protocol):
    """Runs a command of a tool."""

    def __call__(self, tool: str, *words: str) -> Done: ...


def commands() -> Iterator[Command]:
    """Yield all commands, in order; a repeated one has its number in its id."""
    seen = Counter[str]()
    for line in COMMANDS.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        args = tuple(fields.pop("args", ()))
        is_recorded = fields.pop("recorded", "client" not in fields)
        name = " ".join((fields.get("tool", ""), *args)) if is_recorded else ""
        seen[name] += 1
        shown_id = f"{name} ({seen[name]})" if name and seen[name] > 1 else name
        yield Command(shown_id, args=args, recorded=is_recorded, **fields)


def replayed_commands(run: Runs, clients: Plays, node: str) -> Iterator[Line]:
    """Yield the end of each recorded command."""
    for command in commands():
        if command.client:
            clients.play(command.client)
            continue
        words = [node if word == NODE else word for word in command.args]
        done = run(command.tool, *words)
        if command.recorded:
            line: Line = {"id": command.id, "exit": done.exit}
            if not command.exit_only:
                line |= {name: getattr(done, name).replace(node, NODE) for name in OUTPUTS}
            yield line


def command_differences(
    golden: dict[str, Line], other: dict[str, Line], given: Iterable[Command]
) -> Iterator[Difference]:
    """Yield the differences of all recorded commands; one that was not run has one."""
    for command in given:
        if not command.recorded:
            continue
        if command.id not in other:
            yield Difference(command.id, "answer", "recorded", ABSENT)
        else:
            yield from _compared(command, golden[command.id], other[command.id])


def _compared(command: Command, golden: Line, other: Line) -> Iterator[Difference]:
    if golden["exit"] != other["exit"]:
        yield Difference(command.id, "exit", str(golden["exit"]), str(other["exit"]))
    if command.exit_only:
        return
    for name in OUTPUTS:
        left, right = (_read(line[name], command.is_list) for line in (golden, other))
        for path, *values in walk(left, right, "", Marks(frozenset(), frozenset())):
            yield Difference(command.id, name + path, *map(shown, values))


def _read(text: str, is_list: bool) -> Any:
    """Return an output as JSON, or as lines, without the values that differ between runs."""
    try:
        value = json.loads(text)
    except ValueError:
        value = _OF_THE_NODE.sub("", text).splitlines()
    return arranged(_masked(value), is_list)


def _masked(value: Any) -> Any:
    """Return a value without process ids and without numbers of four digits and more: ports."""
    match value:
        case str():
            return _NUMBER.sub("N", _PROCESS.sub("PID", value.rstrip()))
        case list():
            return [_masked(each) for each in value]
        case dict():
            return {key: _masked(each) for key, each in value.items()}
        case int() if value >= PORTS_MIN:
            return "N"
    return value
