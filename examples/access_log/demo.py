"""From nginx's log to tables and a picture: `make demo`, or `python -m examples.access_log.demo`.

    1. a broker starts, in a process of its own, on a free loopback port
    2. the log is fed into a topic, at a chosen speed, while three Spark queries fill three tables
    3. a heartbeat says that event time has passed the last line, so the last windows close too
    4. what was written is read back and counted: every line must be somewhere, and only once
    5. a table, a picture, and where to look further

Everything it writes lies below `--out`. It stops what it started, also when it is interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
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
from examples.access_log.folder import claim
from examples.access_log.interrupt import Interrupts
from examples.access_log.live import Pipeline, group_of
from examples.access_log.picture import draw
from examples.access_log.tables import TABLES
from examples.access_log.topic import NAME, PARTITIONS, Topic
from headrace.model.errors import HeadraceError
from headrace.pipeline import Unbalanced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.access_log.archive import Archive
    from examples.access_log.results import Results
    from examples.access_log.topic import Group

SPEED = 60.0
LOOK_S = 1.0
CATCH_UP_S_MAX = 120.0
GROUPS_S_MAX = 10.0
CLOSING_MS = 4 * 60 * 1000  # more than a window and the lateness allowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when every line is accounted for."""
    args = _parse(arguments)
    console = Console(highlight=False)
    try:
        _run(console, args.out.resolve(), args.speed)
    except KeyboardInterrupt:
        console.print("\n[yellow]interrupted; everything it had started is stopped")
        return 130
    except (BrokerFailed, HeadraceError, OSError, PySparkException, Unbalanced, ValueError) as why:
        console.print(f"[bold red]the demo failed:[/] {why}")
        return 1
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=SPEED,
        help=f"seconds of the log per second, or max (default {SPEED:g})",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/access_log"),
        help="where to write (default %(default)s)",
    )
    return parser.parse_args(arguments)


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    speed = float(text)
    if speed <= 0:
        raise ValueError(text)
    return speed


def _run(console: Console, out: Path, speed: float | None) -> None:
    started = time.monotonic()
    interrupts = Interrupts()
    interrupts.watch()
    log = archive.load()
    claim(out)
    console.print(
        f"[bold]Headrace[/]: nginx access log → topic → Spark → tables and a picture\n"
        f"{len(log.lines):,} lines, {log.seconds / 60:.0f} minutes of a real nginx,"
        f" {log.damaged} lines damaged by hand"
    )
    with running_broker(out / "broker") as bootstrap, closing(Topic(bootstrap)) as topic:
        console.print(f"broker on {bootstrap}, topic {NAME} with {PARTITIONS} partitions")
        with console.status("starting Spark"):
            pipeline = Pipeline(bootstrap, out)
        with closing(pipeline):
            interrupts.watch()  # Spark has its own idea of Ctrl-C
            pipeline.start()
            _feed(console, log, topic, pipeline, speed, interrupts)
            results = _conclude(console, log, topic, pipeline, interrupts)
            groups = _groups(topic, interrupts)
    picture = out / "access_log.png"
    draw(results.windows, picture)
    report.show(console, results, groups, out, picture)
    console.print(f"done in {time.monotonic() - started:.0f} s; nothing is left running")


def _feed(
    console: Console,
    log: Archive,
    topic: Topic,
    pipeline: Pipeline,
    speed: float | None,
    interrupts: Interrupts,
) -> None:
    """Feed the log while the queries run, with a bar for each side of the topic."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        fed = progress.add_task("fed into the topic", total=len(log.lines))
        taken = progress.add_task("taken by Spark", total=len(log.lines))

        def all_taken() -> bool:
            lines = pipeline.lines_taken()
            progress.update(taken, completed=lines)
            return lines >= len(log.lines)

        looked = time.monotonic()
        for count in feed(log.lines, topic, speed):
            interrupts.check()
            progress.advance(fed, count)
            if time.monotonic() - looked > LOOK_S:
                all_taken()
                looked = time.monotonic()
        if not interrupts.wait_until(all_taken, CATCH_UP_S_MAX):
            raise Unbalanced(f"Spark has taken only {pipeline.lines_taken():,} lines")


def _conclude(
    console: Console, log: Archive, topic: Topic, pipeline: Pipeline, interrupts: Interrupts
) -> Results:
    """Close the last windows, read everything back, and hold it against what was fed.

    A window is written once the watermark has passed its end, and after the last line nothing moves
    the watermark any more. So a heartbeat says how late it is, and the queries, started again from
    their checkpoints, take it and end. A batch that the stop fell into is written anew by then;
    what it had written before is taken away, for readers other than Spark.
    """
    with console.status("closing the last windows"):
        pipeline.stop()
        stored = topic.record_count()
        topic.send_to_all(heartbeat(int(log.last_event_time * 1000) + CLOSING_MS))
        pipeline.start_to_end()
        if not interrupts.wait_until(pipeline.ended, CATCH_UP_S_MAX):
            raise Unbalanced("the queries have not come to the end of the topic")
        pipeline.remove_leftovers()
    with console.status("reading back what was written"):
        results = pipeline.read_back(fed=len(log.lines), stored=stored, damaged=log.damaged)
    results.account.check()
    return results


def _groups(topic: Topic, interrupts: Interrupts) -> list[Group]:
    """The queries as consumer groups. Spark tells of a batch a moment after the batch is done."""

    def look() -> list[Group]:
        return [topic.group(group_of(table)) for table in TABLES]

    interrupts.wait_until(lambda: not any(group.lag for group in look()), GROUPS_S_MAX)
    return look()


if __name__ == "__main__":
    sys.exit(main())
