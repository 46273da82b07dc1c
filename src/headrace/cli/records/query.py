"""`headrace query`: SQL on topics, by DuckDB."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.cli.records.topic_reading import DataDirectory, Level, topics_of, write_all
from headrace.cli.records.typed_values import DDL_HELP, ValueMode, refused_line, typed_values
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import CommandError, UsageError, check_installed, not_found
from headrace.terminal.output import counted, note, print_table

if TYPE_CHECKING:
    from headrace.arrow.sql.sql_answer import Answer
    from headrace.arrow.typed.typed_rows import TypedValues

SAMPLE_RECORDS = 1000
MEMORY = "1GB"
_OF_TOPIC = re.compile(r"([A-Za-z0-9._-]+)=(.*)", re.DOTALL)
"""No schema begins so: a name of a column is followed by its type."""
TABLE_ROWS_MAX = 1000
"""The most rows of a table without --rows: all are in memory to compute column widths."""


def query(
    sql: Annotated[str, Parameter(help="One SQL statement; - reads it from standard input.")],
    *,
    data: DataDirectory = None,
    csv: Annotated[bool, Parameter(help="Print CSV.")] = False,
    sample: Annotated[
        int,
        Parameter(
            show_default=True, help="Records that are sampled for the columns of JSON values."
        ),
    ] = SAMPLE_RECORDS,
    binary: Annotated[
        bool, Parameter(help="Keys, values and headers are bytes, not text.")
    ] = False,
    value_schema: Annotated[
        tuple[str, ...],
        Parameter(help=f"{DDL_HELP} TOPIC=DDL: only that topic's."),
    ] = (),
    mode: ValueMode = None,
    isolation: Level = "read_committed",
    memory: Annotated[
        str,
        Parameter(show_default=True, help="Memory of a query; beyond it the query uses the disk."),
    ] = MEMORY,
    rows: Annotated[
        int, Parameter(show_default=True, help="The most rows to print.")
    ] = TABLE_ROWS_MAX,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Query topics with SQL: each topic is a table with the columns of its JSON values."""
    if json and csv:
        raise UsageError("--json and --csv cannot be combined")
    for flag, number in (("--sample", sample), ("--rows", rows)):
        if number < 1:
            raise UsageError(f"{flag} {number}: must be at least 1")
    packages = ("duckdb", "pyarrow", "numba", "numpy")
    check_installed("duckdb", "pyarrow", "numpy", packages=packages)
    from headrace.arrow.sql.sql import TopicSql, UnknownTable
    from headrace.arrow.typed.typed_rows import RefusedRecordError

    if sql == "-":
        sql = sys.stdin.read()
    with TopicSql(
        topics_of(data, cluster), isolation=isolation, sample=sample, memory=memory,
        binary=binary, typed=_schemas(value_schema, mode), tell=note,
    ) as session:  # fmt: skip
        try:
            _print(session.answer(sql), "json" if json else "csv" if csv else "table", rows)
        except UnknownTable as error:
            raise not_found("topic", error.name, error.topics) from None
        except RefusedRecordError as error:
            raise CommandError(refused_line(error)) from None


def _print(answer: "Answer", format_: str, most: int) -> None:
    if format_ == "json":
        write_all(answer.json_lines())
    elif format_ == "csv":
        write_all(answer.csv())
    else:
        _show(answer, most)


def _schemas(given: tuple[str, ...], mode: str | None) -> "dict[str, TypedValues]":
    """Return how values are decoded, by topic; ANY_TOPIC for a schema without one."""
    from headrace.arrow.sql.sql import ANY_TOPIC

    if mode is not None and not given:
        raise UsageError("--mode: only with --value-schema")
    found: dict[str, TypedValues] = {}
    for text in given:
        of_topic = _OF_TOPIC.match(text)
        topic, ddl = (of_topic[1], of_topic[2]) if of_topic else (ANY_TOPIC, text)
        if topic in found:
            raise UsageError(f"--value-schema: {topic or 'all topics'}: given twice")
        found[topic] = typed_values(ddl, mode, ())
    return found


def _show(answer: "Answer", most: int) -> None:
    rows, more = answer.rows(most)
    if answer.columns:
        print_table(answer.columns, rows)
    if more:
        note(f"the first {counted(most, 'row')}: --rows shows more, --json and --csv all")
