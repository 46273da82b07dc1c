"""A protocol is named in its own rooms and in its row: other rooms know rows, not protocols."""

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent
ROOMS = {
    "amqp": (
        "amqp_commands",
        "frontends/amqp",
        "frontends/management",
        "management",
        "queue_stores",
        "queues",
        "remote_queues",
        "vhosts",
        "wire/amqp",
        "arrow/amqp",
    ),
    "rocketmq": ("frontends/rocketmq", "wire/rocketmq", "cli/rocketmq", "logtools/rocketmq"),
}
"""By protocol: its own rooms, and the folder of its column."""
NAMED = {
    "model/protocols.py": "the rows themselves",
    "cluster/settings/vhost_settings.py": "the row's own settings in the store, which a controller"
    " reads: rooms of the protocol may not import the store",
    "wire/kafka/api.py": "API 20000 has its name in metrics and in the audit log",
    "observe/former_loggers.py": "former names of loggers, accepted for one version",
    "arrow/read/columns.py": "the public column `amqp`, decoded from keys and headers",
    "arrow/read/assemble.py": "the same column, joined to the others",
    "spark/source/columns.py": "the same column in Spark's schema",
    "spark/source/options.py": "the public option `includeAmqp`",
}
"""Files elsewhere that name it, each with its reason."""
ROW_ALONE = {"model/protocols.py": NAMED["model/protocols.py"]}
"""Files that name RocketMQ, once it has its row."""
NAMED_MAX = 12


def names_in(source: str, word: str = "amqp") -> Iterator[str]:
    """Yield the identifiers and strings that contain the word; docstrings do not count."""
    prose = {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    kinds = {tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds and token.start not in prose and word in token.string.lower():
            yield token.string


def naming(word: str) -> set[str]:
    """Return the files outside a protocol's rooms that name it, in code or by their own name."""
    found = set()
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(tuple(f"{room}/" for room in ROOMS[word])):
            continue
        text = path.read_text("utf-8")
        if word in name or (word in text.lower() and any(names_in(text, word))):
            found.add(name)
    return found


def test_other_rooms_do_not_name_the_protocol() -> None:
    assert naming("amqp") == set(NAMED)
    assert len(NAMED) <= NAMED_MAX


def test_rocketmq_is_named_in_its_rooms_and_its_row_alone() -> None:
    assert naming("rocketmq") <= set(ROW_ALONE)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("import headrace.wire.amqp.frames", True),
        ("amqp_port = 1", True),
        ("PORT = 'AMQP://'", True),
        ("text = f'{name} of AMQP'", True),
        ('"""About AMQP."""\nx = 1  # AMQP', False),
    ],
)
def test_code_counts_and_prose_does_not(source: str, named: bool) -> None:
    assert any(names_in(source)) is named
