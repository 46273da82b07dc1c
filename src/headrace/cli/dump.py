"""`headrace log dump`: what stands in the files of a log directory, Kafka's or ours."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.broker_options import Json
from headrace.cli.failure import EXIT_FAILED, CommandError, UsageError
from headrace.cli.formats import jsonable_line
from headrace.cli.output import note, print_line
from headrace.log.dump import Row, UnknownFile, kind_of
from headrace.log.dump import dump as dump_file
from headrace.model.errors import CorruptLogError

app = App(
    name="log",
    help="Look into a broker's files.",
    default_parameter=Parameter(show_default=False, negative=()),
)


@app.command
def dump(
    *files: Annotated[Path, Parameter(help="Files of a log directory, or directories of them.")],
    files_flag: Annotated[tuple[str, ...], Parameter(name="--files", show=False, negative=())] = (),
    records: Annotated[
        bool,
        Parameter(
            name=["-r", "--records", "--print-data-log", "--deep-iteration"],
            negative=(),
            help="The records of each batch too.",
        ),
    ] = False,
    json: Json = False,
) -> int | None:
    """Print what stands in segments, indexes, snapshots and checkpoints.

    Each file is read by what its name says. Checksums are verified; damage is named with its
    place and makes the command fail, after all other files were printed.
    """
    paths = [*files, *(Path(one) for text in files_flag for one in text.split(","))]
    if not paths:
        raise UsageError("name at least one file")
    damaged = False
    for path, chosen in _expanded(paths):
        try:
            _print_file(path, records=records, json=json)
        except CorruptLogError as error:
            note(f"headrace: damaged data: {error}")
            damaged = True
        except UnknownFile as error:
            # In a directory other files may lie about; one that was named must be known.
            if chosen:
                raise CommandError(str(error), EXIT_FAILED) from None
    return EXIT_FAILED if damaged else None


def _expanded(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Files, and whether they were named; a directory stands for the files in it."""
    for path in paths:
        if path.is_dir():
            yield from ((one, False) for one in sorted(path.iterdir()) if one.is_file())
        else:
            yield path, True


def _print_file(path: Path, *, records: bool, json: bool) -> None:
    # The directory's name says which topic it is: `log dump 0….log` is run in it, too.
    name = str(path.absolute())
    kind = kind_of(name)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        if not json:
            print_line(f"{path} ({kind}, {size} bytes)")
        rows = dump_file(
            name,
            size,
            lambda position, count: os.pread(descriptor, count, position),
            records=records,
        )
        for row in rows:
            if json:
                print_line(jsonable_line({"file": str(path), **row}))
            else:
                _print_row(row)
    finally:
        os.close(descriptor)


def _print_row(row: Row) -> None:
    """A row as `name: value` pairs on one line, a batch's records set in below it."""
    indent = "  | " if "offset" in row and "headers" in row else ""
    pairs = (f"{name}: {_shown(value)}" for name, value in row.items() if value is not None)
    print_line(indent + "  ".join(pairs))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if value.isprintable() else jsonable_line(value)
    if isinstance(value, int):
        return str(value)
    return jsonable_line(value)
