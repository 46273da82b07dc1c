"""The order of a broker's stop, and what its process does around it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from headrace.model.invariant import InvariantError
from headrace.server import main
from headrace.server.assembly import Server
from headrace.testing import BrokerThread


def test_a_stop_ends_each_part_once_and_the_logs_last() -> None:
    order: list[str] = []

    def watch(server: Server) -> None:
        directory = server.directories[0]
        for part, name in (
            (server.cleaner, "close"), (server.listeners[0], "close"), (server.table, "quiesce"),
            (server.dispatcher, "stop"), (server.producer_id_source, "close"),
            (server.coordinators, "close"), (server.table, "close"), (server.table, "abort"),
            (server.controller, "stop"), (directory, "end_duties"), (server.broker, "stop"),
            (server.world, "close"),
        ):  # fmt: skip
            setattr(part, name, noted(order, f"{type(part).__name__}.{name}", getattr(part, name)))

    with BrokerThread() as broker:
        broker.call(watch)
    assert list(dict.fromkeys(order)) == [
        "LogCleaner.close", "Listener.close", "ConnectionTable.quiesce", "Dispatcher.stop",
        "ProducerIdSource.close", "Coordinators.close", "ConnectionTable.close",
        "ConnectionTable.abort", "Controller.stop", "LogDirectory.end_duties", "Broker.stop",
        "RealWorld.close",
    ]  # fmt: skip


def noted(order: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, with a note that it was called."""

    def noting(*arguments: Any) -> Any:
        order.append(name)
        return call(*arguments)

    return noting


class _Server:
    """What the process knows of a broker."""

    made: ClassVar[list["_Server"]] = []

    def __init__(self, config: object, world: object, fatal: Callable[[Exception], None]) -> None:
        self.fatal = fatal
        self.stopped = False
        self.made.append(self)

    async def start(self) -> None:
        """Start."""

    def listening(self) -> list[str]:
        """Where clients find it."""
        return ["PLAINTEXT://h:1", "OTHER://h:2"]

    async def stop(self) -> None:
        """Note it."""
        self.stopped = True


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "Server", _Server)
    monkeypatch.setattr(main, "RealWorld", lambda config: None)
    monkeypatch.setattr(_Server, "made", [])


def test_a_broken_invariant_ends_the_process_with_its_code_and_without_a_stop(
    serving: None, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(server: Any) -> None:
        server.fatal(InvariantError("1 is 2"))
        server.fatal(InvariantError("2 is 3"))

    config: Any = None
    assert main.serve(config, started=started) == main.EXIT_BROKEN == 70
    (server,) = _Server.made
    assert not server.stopped
    assert "the broker exits (code 70)" in caplog.text
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" listens on ")[1] for line in said] == ["PLAINTEXT://h:1", "OTHER://h:2"]


def test_a_callback_that_fails_is_logged_and_a_broken_invariant_in_one_is_fatal(
    serving: None, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(problem: Exception) -> None:
        raise problem

    def started(server: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "said so"})
        loop.call_exception_handler({})
        loop.call_soon(raises, KeyError("k"))
        loop.call_soon(raises, InvariantError("1 is 2"))

    config: Any = None
    with caplog.at_level(logging.ERROR):
        assert main.serve(config, started=started) == main.EXIT_BROKEN
    errors = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 3
    assert errors[0].getMessage().endswith("with this traceback: said so")
    assert errors[1].getMessage().endswith("with this traceback: no message")
    assert errors[2].exc_info is not None
    assert "an internal invariant is violated" in caplog.text
