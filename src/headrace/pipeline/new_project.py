"""The files of a new project: settings, a first file of declarations, what git ignores."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from headrace.pipeline.declarations import DeclarationError
from headrace.pipeline.inferred_columns import nearly_all
from headrace.pipeline.project import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from headrace.pipeline.inferred_columns import InferredColumns

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
_SETTINGS = """\
name = "{name}"
storage = "data"                     # tables, checkpoints and event logs
libraries = ["transformations/**"]   # files with declarations
trigger = "10 seconds"               # time between two batches of a table

# [configuration]                    # of Spark
# "spark.headrace.rowBytesMax" = 4096   # the largest row, if known: less CPU time (docs/spark.md)

# [profile.prod]                     # headrace pipeline run -p prod
# cluster = "prod"                   # a profile of headrace profile: address and secrets
# storage = "/mnt/lake/{name}"
"""
_IGNORED = "data/\n__pycache__/\n"
_HEAD = """\
from pyspark import pipelines as dp

from headrace import pipeline as hp

"""
_TABLE = '''
@dp.table(format="delta"{partitions})
{checks}def {table}():
    """One row for each record of the topic {topic}."""
    return hp.topic(
        "{topic}",
        {columns},
    )
'''
_PARSER = '''
class Line(NamedTuple):
    """The columns of a line: add those that your lines have, before the first run.

    Types: str, int, float, bool, bytes, date, datetime (UTC without a zone), lists and
    dictionaries of them, and Annotated[Decimal, "DECIMAL(12,2)"]; `| None` for a null.
    """

    line: str


def parse(value: bytes) -> Line:
    """Return the columns of a record, or raise hp.Unreadable for one that cannot be read.

    Unreadable records are moved to the quarantine; any other error ends the run.
    """
    try:
        text = value.decode()
        return Line(text)
    except UnicodeDecodeError as error:
        raise hp.Unreadable(f"not UTF-8, got {error.reason} at {error.start}") from None
    except ValueError as error:  # of too few fields, of int(…), of datetime.strptime(…)
        raise hp.Unreadable(f"not a line of this log, got an error: {error}") from None

'''
_COMBINED = r'''
# The combined format of nginx and Apache; fields behind it are not read.
LINE = re.compile(
    r'(\S+) \S+ (\S+) \[([^]]+)\] "((?:[^"\\]|\\.)*)" ([1-5]\d\d) (\d+|-) '
    r'"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"(?: .*)?'
)


class Request(NamedTuple):
    """The columns of a line."""

    client: str
    user: str | None
    at: datetime
    request: str
    status: int
    bytes: int
    referer: str | None
    agent: str | None


def parse(value: bytes) -> Request:
    """Return the columns of a record, or raise hp.Unreadable for one that cannot be read."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise hp.Unreadable(f"not UTF-8, got {error.reason} at {error.start}") from None
    found = LINE.fullmatch(text)
    if found is None:
        raise hp.Unreadable("not in the combined format")
    client, user, time, request, status, size, referer, agent = found.groups()
    try:
        at = datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z")
    except ValueError:
        raise hp.Unreadable(f"no time, got {time}") from None
    count = 0 if size == "-" else int(size)
    return Request(
        client, known(user), at, request, int(status), count, known(referer), known(agent)
    )


def known(field: str) -> str | None:
    """Return a field; None for the dash that stands for none."""
    return None if field == "-" else field

'''
_COMBINED_LINE = re.compile(
    rb'\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:[\d:]{8} [+-]\d{4}\] "[^"]*" \d{3} (?:\d+|-) "'
)
EXAMPLE_COLUMNS = ("id BIGINT NOT NULL", "customer STRING", "amount DOUBLE", "at TIMESTAMP")


def template(topic: str = "orders") -> str:
    """Return the declarations of an example: orders with a check, a partition by day."""
    table = _table(topic, EXAMPLE_COLUMNS, "at", ("amount is positive", "amount > 0"))
    return _HEAD + table


def typed_declarations(topic: str, columns: InferredColumns) -> str:
    """Return the declarations of a table with the columns of a topic's JSON values."""
    note = ""
    if columns.left_out:
        names = ", ".join(columns.left_out)
        note = f"# Keys whose values have no common type are left out: {names}\n"
    return _HEAD + note + _table(topic, columns.ddl, columns.event_time, None)


def parsed_declarations(topic: str, sample: Sequence[bytes] = ()) -> str:
    """Return the declarations of a table of a topic's lines, with a parser to extend.

    Lines of a sample that are nearly all in the combined format get the columns of a request.
    """
    matching = sum(_COMBINED_LINE.match(line) is not None for line in sample)
    combined = matching > 0 and nearly_all(matching, len(sample))
    table = _TABLE.format(
        topic=topic,
        table=table_name(topic),
        partitions=', partition_cols=["day(at)"]' if combined else "",
        checks="",
        columns=f"hp.parser(parse, {'Request' if combined else 'Line'})",
    )
    imports = "import re\nfrom datetime import datetime\n" if combined else ""
    parser = _COMBINED if combined else _PARSER
    return f"{imports}from typing import NamedTuple\n\n{_HEAD}{parser}{table}"


def _table(
    topic: str, columns: tuple[str, ...], event_time: str | None, check: tuple[str, str] | None
) -> str:
    chunks = [f"{column}, " for column in columns[:-1]] + [columns[-1]]
    joined = "\n        ".join(json.dumps(chunk, ensure_ascii=False) for chunk in chunks)
    simple = event_time is not None and event_time.isidentifier()
    partitions = f', partition_cols=["day({event_time})"]' if simple else ""
    checks = "" if check is None else f'@hp.expect_or_drop("{check[0]}", "{check[1]}")\n'
    return _TABLE.format(
        topic=topic,
        table=table_name(topic),
        partitions=partitions,
        checks=checks,
        columns=joined,
    )


def table_name(topic: str) -> str:
    """Return a Python name for the table of a topic."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return name if name[:1].isalpha() else f"t_{name}"


def check_new(directory: Path) -> None:
    """Refuse a directory that cannot be a new project's, with a DeclarationError.

    Its name must be one for a pipeline; if it exists, it must be empty. OSError.
    """
    if not _NAME.fullmatch(directory.name):
        raise DeclarationError(
            f"{directory.name!r} is no name for a pipeline: a letter, then letters, digits, _ and -"
        )
    if directory.exists() and any(directory.iterdir()):
        raise DeclarationError(f"{directory} is not empty")


def write_project(directory: Path, declarations: str, topic: str) -> list[Path]:
    """Write a new project; return its files. Errors as of `check_new`."""
    check_new(directory)
    name = directory.name
    files: Mapping[Path, str] = {
        directory / FILE: _SETTINGS.format(name=name),
        directory / ".gitignore": _IGNORED,
        directory / "transformations" / f"{table_name(topic)}.py": declarations,
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return list(files)
