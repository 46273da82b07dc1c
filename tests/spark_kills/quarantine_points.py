"""Named points of the quarantine's protocol, at which a process of a played Spark dies."""

import inspect
import os
import shutil
import signal
from typing import Any

from headrace.client.producer import transactions
from headrace.client.producer.producer import Producer
from headrace.spark.quarantine import sink_batch
from headrace.spark.quarantine.refused import CHECK, DECODE
from headrace.spark.quarantine.spool import RangeSpool
from headrace.spark.sink import sink_task
from headrace.spark.sink.decisions import DecisionLog
from headrace.spark.tables import sink as table_sink
from headrace.spark.tables.options import parse_table_options

POINTS = (
    "before the spool's file",
    "after the spool's file",
    "before the manifest",
    "after the manifest",
    "before the sink's commit",
    "after the sink's commit",
    "before publishing",
    "amid publishing",
    "before the publication's end",
    "after the publication's end",
    "amid the sweep",
    "before Spark's commit file",
)
CHECK_POINTS = ("before the check's file", "after the check's file", *POINTS)
TASK_POINTS = CHECK_POINTS[:4]
STAGES = {DECODE: POINTS, CHECK: CHECK_POINTS}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(owner: Any, name: str, *, before: bool, at: int = 1) -> None:
    """Let this process die in the so-manieth call of a function, before or after its work."""
    work, calls = getattr(owner, name), 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == at:
            _die()
        result = work(*arguments, **named)
        if calls == at:
            _die()
        return result

    async def dying_later(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if before and calls == at:
            _die()
        result = await work(*arguments, **named)
        if calls == at:
            _die()
        return result

    setattr(owner, name, dying_later if inspect.iscoroutinefunction(work) else dying)


def plant(point: str | None, kind: str) -> None:
    """Let this process die at the point. It is a fork: no other process is changed."""
    if point in CHECK_POINTS[:2]:
        module = sink_task if kind == "topic" else table_sink
        _dying(module, "spool_failed", before=point.startswith("before"))
    elif point in TASK_POINTS:
        _dying(RangeSpool, "finish", before=point.startswith("before"))
    elif point in ("before the manifest", "after the manifest"):
        _dying(sink_batch, "write_manifest", before=point.startswith("before"))
    elif point in ("before the sink's commit", "after the sink's commit"):
        before = point.startswith("before")
        if kind == "topic":
            _dying(DecisionLog, "decide", before=before)
        else:
            options = {"tableFormat": kind, "path": "/t", "table": "a.b"}
            if kind != "iceberg":
                del options["table"]
            table = table_sink.table_of(parse_table_options(options, streaming=False))
            _dying(type(table), "append", before=before)
    elif point == "before publishing":
        _dying(sink_batch, "publish", before=True)
    elif point == "amid publishing":
        _dying(Producer, "flush", before=False, at=2 if kind == "topic" else 1)
    elif point in ("before the publication's end", "after the publication's end"):
        _die_in_end(before=point.startswith("before"))
    elif point == "amid the sweep":
        _dying(shutil, "rmtree", before=False)


def _die_in_end(*, before: bool) -> None:
    end: Any = transactions.end

    async def dying(client: Any, writer: Any, *, commit: bool) -> None:
        own = writer.transactional_id.endswith(".quarantine")
        if own and before:
            _die()
        await end(client, writer, commit=commit)
        if own:
            _die()

    module: Any = transactions
    module.end = dying
