"""Recordings: the answers of a run, a line each."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from tests.outside.amqp.management.differences import GOLDEN
from tests.outside.amqp.management.replay import Line

VERSION = GOLDEN.name.rpartition("-")[2]
"""The RabbitMQ that was recorded."""
ANSWERS = GOLDEN / "management.jsonl.gz"
COMMANDS = GOLDEN / "commands.jsonl.gz"


def load(path: Path = ANSWERS) -> dict[str, Line]:
    """Return the answers of a recording, by step."""
    return {line["id"]: line for line in load_lines(path)}


def load_lines(path: Path) -> list[Line]:
    """Return the lines of a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def save(path: Path, lines: Iterable[Line]) -> None:
    """Write a recording; the same answers are the same bytes."""
    text = "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
