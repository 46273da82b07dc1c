"""`headrace produce`: send lines of files, of standard input, or of a growing file."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.records.sending import CHUNK_BYTES, Progress, Records, Sender, now_ms
from headrace.client.producer.producer import Producer
from headrace.client.sync import run
from headrace.model.errors import HeadraceError
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.failure import UsageError, check_readable, error_json
from headrace.terminal.input_lines import LineParser
from headrace.terminal.output import counted, note, print_json
from headrace.terminal.permission_needs import Need, needing

_PLACES_MAX = 4
"""The most partitions whose last offset is printed."""


@Parameter(name="*")
@dataclass(frozen=True)
class Follow:
    """Options for shipping a growing file."""

    file: Annotated[
        Path | None,
        Parameter(
            name=["--follow", "-F"],
            help="Ship this file's lines as they are written, through rotation and restarts.",
        ),
    ] = None
    state: Annotated[
        Path | None,
        Parameter(help="File for the position; default: next to the file."),
    ] = None
    from_end: Annotated[
        bool,
        Parameter(help="At the first start skip existing lines."),
    ] = False


def produce(
    topic: Annotated[str | None, Parameter(help="Where to.")] = None,
    /,
    *files: Annotated[Path, Parameter(help="Files to read; none or - for standard input.")],
    records: Records = Records(),  # noqa: B008
    follow: Follow = Follow(),
    topic_flag: Annotated[str | None, Parameter(name="--topic", show=False)] = None,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Send lines to a topic, each a record."""
    if topic_flag is not None:
        files = files if topic is None else (Path(topic), *files)
        topic = topic_flag
    if topic is None:
        raise UsageError("pass the topic: headrace produce TOPIC [FILE…]")
    parser = records.parser()
    if follow.file is not None:
        if files:
            raise UsageError("--follow cannot be combined with other files")
        from headrace.cli.records.follow import ship

        return ship(cluster, topic, follow.file, follow.state, records, from_end=follow.from_end)
    for path in files:
        if path != Path("-"):
            check_readable(path)
    with cluster.client() as client:
        producer = records.producer(client)
        began = time.monotonic()
        needs = [Need("write", "topic", topic)]
        with needing(client, needs):
            run(producer.partitions(topic))
        try:
            with needing(client, needs):
                if records.tombstone:
                    run(_tombstone(producer, topic, parser, records.partition))
                else:
                    _produce_files(producer, topic, files, parser, records.partition)
        except HeadraceError as error:
            # Which input to send again is for its owner to find out: this is where to begin.
            if json:
                _report(producer, topic, time.monotonic() - began, json=True, error=error)
                raise
            note(f"acknowledged: {counted(producer.acknowledged, 'record')}{_places(producer)}")
            raise
    _report(producer, topic, time.monotonic() - began, json=json)
    return 0


async def _tombstone(
    producer: Producer, topic: str, parser: LineParser, partition: int | None
) -> None:
    await producer.send(
        topic,
        None,
        parser.key,
        timestamp=now_ms(),
        headers=parser.headers,
        partition=partition,
    )
    await producer.flush()


def _produce_files(
    producer: Producer,
    topic: str,
    files: tuple[Path, ...],
    parser: LineParser,
    partition: int | None,
) -> None:
    sender = Sender(producer, topic, parser, partition)
    names = files or (Path("-"),)
    sizes = [path.stat().st_size for path in names if path != Path("-")]
    whole = sum(sizes) if len(sizes) == len(names) else None
    with _progress(whole) as progress:
        for path in names:
            if path == Path("-"):
                run(sender.read(sys.stdin.buffer, progress))
            else:
                with path.open("rb", buffering=0) as file:
                    run(sender.read(file, progress))
        run(producer.flush())


@contextmanager
def _progress(whole: int | None) -> Iterator[Progress]:
    """Show a progress bar on a terminal if the size is known; yields its function."""
    if whole is None or whole < CHUNK_BYTES or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=whole)
        yield lambda size: bar.advance(task, size)


def _report(
    producer: Producer,
    topic: str,
    seconds: float,
    *,
    json: bool,
    error: HeadraceError | None = None,
) -> None:
    if json:
        print_json(
            {
                "topic": topic,
                "records": producer.acknowledged,
                "bytes": producer.acknowledged_bytes,
                "seconds": round(seconds, 3),
                "partitions": [
                    {"partition": partition.partition, "last_offset": offset}
                    for partition, offset in sorted(producer.offsets.items())
                ],
                "error": None if error is None else error_json(error),
            }
        )
        return
    records = counted(producer.acknowledged, "record")
    note(f"{records} to {topic} in {seconds:.2f} s{_places(producer)}")


def _places(producer: Producer) -> str:
    """Return the last offset of each partition as text; "" for many partitions."""
    places = [f"{partition}@{offset}" for partition, offset in sorted(producer.offsets.items())]
    return f", last at {', '.join(places)}" if 0 < len(places) <= _PLACES_MAX else ""
