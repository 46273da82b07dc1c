"""`headrace pipeline init`: a new project that runs, from a template, a topic or a file."""

from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.terminal.broker_options import BrokerOptions
from headrace.terminal.failure import (
    EXIT_USAGE,
    CommandError,
    UsageError,
    check_installed,
    check_readable,
    unusable,
)
from headrace.terminal.output import note, print_line

SAMPLE_RECORDS = 1000
"""Records, or lines of a file, that columns are inferred from."""
_LINE_BYTES_MAX = 1 << 20


def init(
    directory: Path,
    *,
    from_topic: Annotated[
        str | None, Parameter(help="Infer the columns from this topic's newest records.")
    ] = None,
    from_file: Annotated[
        Path | None, Parameter(help="Infer the columns from a file of lines, JSON or text.")
    ] = None,
    options: BrokerOptions | None = None,
) -> int:
    """Create a pipeline's project: its settings and a first file of declarations that runs.

    Columns are inferred from at most 1,000 records, of which a tenth may be damaged. JSON objects
    become typed columns, lines of a web server's combined log those of a request, and other lines
    one column, with a parser to extend. For example: headrace pipeline init shop; headrace pipeline
    init shop --from-topic orders; headrace pipeline init web --from-file access.log

    Parameters
    ----------
    directory
        The project's directory, which must not exist or be empty; its name is the pipeline's.
    """
    from headrace.pipeline.declarations import DeclarationError
    from headrace.pipeline.new_project import check_new, table_name, template, write_project

    if from_topic is not None and from_file is not None:
        raise UsageError("--from-topic and --from-file cannot be combined")
    directory = directory.absolute()
    try:
        check_new(directory)
    except DeclarationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if from_topic is not None:
        topic = from_topic
        declarations = _inferred(topic, _newest(options or BrokerOptions(), topic), "records")
    elif from_file is not None:
        check_readable(from_file)
        topic = table_name(from_file.stem)
        declarations = _inferred(topic, _lines(from_file), "lines")
    else:
        topic, declarations = "orders", template()
    try:
        files = write_project(directory, declarations, topic)
    except OSError as error:
        raise unusable(directory, error) from None
    for file in files:
        print_line(f"created {file}")
    print_line("next:")
    if from_file is not None:
        print_line(f"  headrace produce {topic} {from_file}")
    print_line(f"  headrace pipeline validate {directory}")
    print_line(f"  headrace pipeline run {directory} --once")
    return 0


def _inferred(topic: str, values: list[bytes], noun: str) -> str:
    from headrace.pipeline.inferred_columns import infer_columns
    from headrace.pipeline.new_project import parsed_declarations, typed_declarations

    if not values:
        raise CommandError(f"{topic}: there are no {noun} to infer columns from")
    columns = infer_columns(values)
    if columns is None:
        return parsed_declarations(topic, values)
    if columns.refused:
        note(
            f"{columns.refused:,} of the {len(values):,} {noun} looked at do not fit the columns: "
            f"a run moves such {noun} to {topic}.quarantine"
        )
    return typed_declarations(topic, columns)


def _lines(file: Path) -> list[bytes]:
    with file.open("rb") as lines:
        bounded = iter(lambda: lines.readline(_LINE_BYTES_MAX), b"")
        found = (line.rstrip(b"\r\n") for line in bounded)
        return list(islice(filter(None, found), SAMPLE_RECORDS))


def _newest(options: BrokerOptions, topic: str) -> list[bytes]:
    """Return the values of the topic's newest records, as many of each partition."""
    check_installed("pyarrow")
    from headrace.pipeline.newest_records import newest_records

    found = newest_records(options.client, topic, SAMPLE_RECORDS, ("value",), note)
    return [
        value for batch in found for value in batch.column("value").to_pylist() if value is not None
    ]
