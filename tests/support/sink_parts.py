"""A sink's options and writers for tests of its parts, and a loop that waits for nothing."""

from typing import Any

from headrace.client.transactions import Writer
from headrace.spark.sink_options import SinkOptions, parse_sink_options
from headrace.spark.sink_task import RunToken

DRIVER, ONE = Writer("p.sink.driver", 1, 0), Writer("p.sink.task-a-1", 2, 0)
TOKEN = RunToken("w", DRIVER, "batch", 4)


def sink(**options: str) -> SinkOptions:
    """The options of a batch write, dots written as two underscores."""
    named = {"kafka.bootstrap.servers": "h:1", "pipeline": "p"}
    options = {name.replace("__", "."): value for name, value in options.items()}
    return parse_sink_options(named | options, streaming=False)


def run(work: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")
