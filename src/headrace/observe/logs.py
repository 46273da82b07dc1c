"""Log lines: time, level, room, message, all on one line.

    2026-11-20T19:04:11.283Z INFO  net.server listening address=127.0.0.1:9092 name=PLAINTEXT

Fields follow the message as `name=value` (`fields`). Control characters are escaped, so that data
from outside cannot begin a line. The traceback of a bug follows, indented.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""Values of the setting `log.level`."""

LOGGER_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
"""Log levels by their names in Kafka's tools (KIP-412)."""
ROOT_LOGGER = "root"

_ESCAPES = {number: f"\\x{number:02x}" for number in [*range(32), *range(127, 160)]} | {
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def one_line(text: str) -> str:
    """Return `text` with its control characters escaped."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def fields(**values: object) -> str:
    """Return `name=value` pairs; values with spaces are quoted, Nones omitted."""
    return " ".join(
        f"{name}={_value(value)}" for name, value in values.items() if value is not None
    )


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if text and not any(mark in text for mark in ' "='):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class LineFormatter(logging.Formatter):
    """A formatter of log records as one line each, with an indented traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the log line without its newline."""
        name = record.name.removeprefix("headrace.")
        line = f"{_time_of(record)} {record.levelname:<7} {name} {one_line(record.getMessage())}"
        if record.exc_info and record.exc_info[0] is not None:
            trace = self.formatException(record.exc_info)
            line += "".join("\n    " + one_line(part) for part in trace.splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """A formatter of log records as JSON objects: time, level, logger, message, trace."""

    def __init__(self) -> None:
        super().__init__()
        import json  # imported here to spare starts that log text

        self._dumps = json.dumps

    def format(self, record: logging.LogRecord) -> str:
        """Return the JSON object without its newline."""
        said = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("headrace."),
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            said["trace"] = self.formatException(record.exc_info)
        return self._dumps(said, ensure_ascii=False)


def _time_of(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return f"{when[:-6]}Z"


def levels() -> dict[str, str]:
    """Return the effective level of each Headrace logger by name; `root` is the root logger.

    A former name of a logger is listed with the present one's level.
    """
    from headrace.observe.former_loggers import FORMER_LOGGERS

    ours = [name for name in logging.root.manager.loggerDict if name.startswith("headrace")]
    found = {name: logging.getLogger(name).getEffectiveLevel() for name in sorted(ours)}
    former = {old: found[new] for old, new in FORMER_LOGGERS.items() if new in found}
    found = dict(sorted((found | former).items()))
    found[ROOT_LOGGER] = logging.root.level
    return {name: _level_name(level) for name, level in found.items()}


def _level_name(level: int) -> str:
    return next((name for name, least in LOGGER_LEVELS.items() if level >= least), "TRACE")


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level by its name in LOGGER_LEVELS; None: inherit it again.

    A former name stands for the present logger.
    """
    from headrace.observe.former_loggers import FORMER_LOGGERS

    logger = logging.getLogger(None if name == ROOT_LOGGER else FORMER_LOGGERS.get(name, name))
    logger.setLevel(logging.NOTSET if level is None else LOGGER_LEVELS[level])


@contextmanager
def silenced(*names: str, below: int = logging.CRITICAL) -> Iterator[None]:
    """Set these loggers to level `below` within the `with` block, and restore them after it."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(below)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def set_up(level: str = "info", stream: TextIO | None = None, *, form: str = "text") -> None:
    """Log all lines from `level` up to `stream`, by default standard error. For main() only.

    `form`: the setting `log.format`, "text" or "json".
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    # With standard error closed, do not print a traceback for each log line.
    logging.raiseExceptions = False
