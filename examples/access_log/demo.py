"""From an access log to tables and a picture: `make demo`, or `python -m examples.access_log.demo`.

    1. a broker starts, in a process of its own, on a free loopback port
    2. `headrace pipeline run` starts the pipeline of `pipeline/`: two tables of one topic
    3. the log is fed into the topic, at a chosen speed
    4. a heartbeat tells that event time has passed the last line, so the last windows close, too
    5. tables and quarantine are read back and counted: every line must be in one, and only once
    6. a table, a picture, and where to look further

With `--log` the lines are those of a log of your own. All files are written below `--out`. The
demo stops what it has started, also when it is interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from examples.access_log import archive, report
from examples.access_log.broker import BrokerFailed, running_broker
from examples.access_log.feed import feed, heartbeat
from examples.access_log.folder import claim, copy_project
from examples.access_log.log_file import LogFile
from examples.access_log.picture import draw
from examples.access_log.pipeline.access_line import PARSERS
from examples.access_log.pipeline_run import RunFailed, running
from examples.access_log.results import TABLES, read_back
from examples.access_log.topic import NAME, PARTITIONS, Topic
from headrace.model.errors import HeadraceError
from headrace.pipeline import Account, Unbalanced, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from examples.access_log.feed import Parse
    from examples.access_log.pipeline_run import PipelineRun
    from examples.access_log.topic import Group

SPEED = 60.0
LOOK_S = 1.0
START_S_MAX = 180.0
CATCH_UP_S_MAX = 300.0
GROUPS_S_MAX = 10.0
SAMPLE_LINES = 100
CLOSING_MS = 4 * 60 * 1000  # more than a window and the lateness allowed


@dataclass
class Log:
    """The lines to feed, and what is known of them."""

    about: str
    lines: Iterable[bytes]
    count: int
    parse: Parse
    damaged: int | None = None
    """Lines that are known to be damaged; None: those that the feed could not read."""
    refused: int = 0
    newest_ms: int = 0
    """Time of the newest line that was fed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when every line is accounted for."""
    args = _parse(arguments)
    console = Console(highlight=False)
    try:
        _run(console, args)
    except KeyboardInterrupt:
        console.print("\n[yellow]interrupted; everything it had started is stopped")
        return 130
    except (BrokerFailed, HeadraceError, OSError, RunFailed, Unbalanced, ValueError) as why:
        console.print(f"[bold red]the demo failed:[/] {why}")
        return 1
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, help="a log of your own, also as .gz")
    parser.add_argument(
        "--format", choices=PARSERS, default="combined", help="its lines (default %(default)s)"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        help=f"seconds of the log per second, or max (default {SPEED:g}, with --log max)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/access_log"),
        help="where to write (default %(default)s)",
    )
    args = parser.parse_args(arguments)
    if args.speed is None:
        args.speed = SPEED if args.log is None else 0.0
    return args


def _speed(text: str) -> float:
    """Return the speed; 0 for as fast as possible."""
    if text == "max":
        return 0.0
    speed = float(text)
    if speed <= 0:
        raise ValueError(text)
    return speed


def _run(console: Console, args: argparse.Namespace) -> None:
    started = time.monotonic()
    out: Path = args.out.resolve()
    line_format = "timed" if args.log is None else args.format
    log = _shipped() if args.log is None else _own(args.log, line_format)
    claim(out)
    project = copy_project(out / "pipeline", line_format)
    console.print(
        f"[bold]Headrace[/]: access log → topic → Spark → tables and a picture\n{log.about}"
    )
    with running_broker(out / "broker") as bootstrap, closing(Topic(bootstrap)) as topic:
        console.print(f"broker on {bootstrap}, topic {NAME} with {PARTITIONS} partitions")
        with running(project, bootstrap, out / "pipeline.log") as run:
            with console.status("starting Spark"):
                _wait(lambda: run.started(len(TABLES)), START_S_MAX, "Spark has not started")
            _feed(console, log, topic, run, args.speed or None)
            with console.status("closing the last windows"):
                stored = topic.record_count()
                _close_windows(log, topic, run)
            groups = _groups(topic)
            refused = topic.refused("requests")
    with console.status("reading back what was written"):
        results = read_back(project / "data", refused)
    late = 0 if args.log is None else max(0, results.requests - results.windowed)
    account = Account(
        fed=log.count,
        stored=stored,
        damaged=log.refused if log.damaged is None else log.damaged,
        written=results.requests,
        quarantined=results.quarantined,
        windowed=results.windowed + late,
    )
    account.check()
    picture = out / "access_log.png"
    if results.windows:
        draw(results.windows, picture)
    report.show(console, report.Findings(results, account, late, groups, run), out, picture)
    console.print(f"done in {time.monotonic() - started:.0f} s; nothing is left running")


def _shipped() -> Log:
    log = archive.load()
    about = (
        f"{len(log.lines):,} lines, {log.seconds / 60:.0f} minutes of a real nginx,"
        f" {log.damaged} lines damaged by hand"
    )
    return Log(about, log.lines, len(log.lines), PARSERS["timed"], log.damaged)


def _own(path: Path, line_format: str) -> Log:
    """Return a log of the reader's own. ValueError if its first lines are of another format."""
    file = LogFile.of(path)
    parse = PARSERS[line_format]
    refusals = []
    for line in islice(file.lines(), SAMPLE_LINES):
        try:
            parse(line)
            break
        except Unreadable as why:
            refusals.append(str(why))
    else:
        raise ValueError(
            f"none of the first lines of {path} is of the format {line_format}"
            f" ({refusals[0]}); formats are {', '.join(PARSERS)}"
        )
    about = f"{file.count:,} lines of {path}, format {line_format}"
    return Log(about, file.lines(), file.count, parse)


def _feed(console: Console, log: Log, topic: Topic, run: PipelineRun, speed: float | None) -> None:
    """Feed the log while the pipeline runs, with a bar for each side of the topic."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        fed = progress.add_task("fed into the topic", total=log.count)
        read = progress.add_task("read by Spark", total=log.count)

        def all_read() -> bool:
            records = run.records_read()
            progress.update(read, completed=records)
            return records >= log.count

        looked = time.monotonic()
        for records in feed(log.lines, log.parse, topic, speed):
            progress.advance(fed, len(records))
            times = [record.timestamp_ms for record in records if record.key is not None]
            log.refused += len(records) - len(times)
            log.newest_ms = max(log.newest_ms, *times, 0)
            if time.monotonic() - looked > LOOK_S:
                all_read()
                looked = time.monotonic()
        _wait(all_read, CATCH_UP_S_MAX, "Spark has not read all lines")


def _close_windows(log: Log, topic: Topic, run: PipelineRun) -> None:
    """Send a heartbeat, and wait until the windows that it closes are written.

    A window is written once the watermark has passed its end, and after the last line nothing moves
    the watermark any more.
    """
    topic.send_to_all(heartbeat(log.newest_ms + CLOSING_MS))
    closed = datetime.fromtimestamp((log.newest_ms + 60_000) // 1000, UTC)
    time_of_close = f"{closed:%Y-%m-%dT%H:%M:%S}"
    _wait(
        lambda: run.watermark_passed("windows", time_of_close),
        CATCH_UP_S_MAX,
        "the last windows are not closed",
    )


def _groups(topic: Topic) -> list[Group]:
    """Return the queries as consumer groups. Spark reports a batch a moment after it is done."""

    def look() -> list[Group]:
        return [topic.group(f"access-log.{table}") for table in TABLES]

    end = time.monotonic() + GROUPS_S_MAX
    while any(group.lag for group in look()) and time.monotonic() < end:
        time.sleep(0.2)
    return look()


def _wait(done: Callable[[], bool], seconds_max: float, problem: str) -> None:
    """Wait until something is done. Unbalanced, with `problem`, if that takes too long."""
    end = time.monotonic() + seconds_max
    while not done():
        if time.monotonic() > end:
            raise Unbalanced(f"{problem} after {seconds_max:.0f} s")
        time.sleep(0.2)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main())
