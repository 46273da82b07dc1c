"""Log lines: which level reaches the stream, in which shape, and what each escape is."""

import io
import logging
from collections.abc import Iterator

import pytest

from headrace.observe import logs


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, as it was afterwards."""
    root = logging.getLogger()
    handlers, level, raises = root.handlers[:], root.level, logging.raiseExceptions
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raises


@pytest.mark.parametrize(
    ("level", "lines"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_lines_from_a_level_up_go_to_the_stream_once(
    level: str, lines: int, root: logging.Logger
) -> None:
    stream = io.StringIO()
    logs.set_up("debug", io.StringIO())
    logs.set_up(level, stream)
    logger = logging.getLogger("headrace.room")
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(number, "said %s", "so")
    found = stream.getvalue().splitlines()
    assert len(found) == lines
    assert all(line.endswith(" room said so") for line in found)
    assert len(root.handlers) == 1
    assert not logging.raiseExceptions


def test_control_characters_are_written_as_escapes() -> None:
    for character, escape in (
        ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\x08", "\\x08"), ("\x1f", "\\x1f"),
        ("\x7f", "\\x7f"), ("\x9f", "\\x9f"), ("\0", "\\x00"), ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"), (" ", " "), ("é", "é"), ("~", "~"),
    ):  # fmt: skip
        assert logs.one_line(f"a{character}\x01b") == f"a{escape}\\x01b"


def test_a_loggers_level_is_told_as_it_was_set_and_follows_again_when_taken_back(
    root: logging.Logger,
) -> None:
    root.setLevel(logging.INFO)
    logger = logging.getLogger("headrace.test_logs")
    for name in logs.LOGGER_LEVELS:
        logs.set_level(logger.name, name)
        assert logs.levels()[logger.name] == name
    logs.set_level(logger.name, None)
    assert logs.levels()[logger.name] == "INFO"
    logs.set_level(logs.ROOT_LOGGER, "WARN")
    assert (logs.levels()[logger.name], logs.levels()["root"]) == ("WARN", "WARN")
    root.setLevel(1)
    assert logs.levels()["root"] == "TRACE"
    assert logs.LOGGER_LEVELS["OFF"] > logs.LOGGER_LEVELS["FATAL"]
