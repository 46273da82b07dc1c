"""What a callback of the event loop raises: told, and only a broken invariant ends the broker."""

import asyncio
import logging
from functools import partial

import pytest

from headrace.model.invariant import InvariantError
from headrace.server.main import report_unexpected


def raised(caplog: pytest.LogCaptureFixture, error: Exception) -> list[Exception]:
    """What is fatal of `error`, raised by a callback of a real loop."""
    fatal: list[Exception] = []

    def fail() -> None:
        raise error

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(partial(report_unexpected, fatal.append))
        loop.call_soon(fail)
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    return fatal


def test_a_bug_of_a_callback_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    assert raised(caplog, KeyError("gone")) == []
    (record,) = caplog.records
    assert "the broker continues" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_a_broken_invariant_is_fatal_and_not_told_twice(caplog: pytest.LogCaptureFixture) -> None:
    broken = InvariantError("does not hold")
    assert raised(caplog, broken) == [broken]
    assert caplog.records == []
