"""The process around a broker: event loop, signals, exit code."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace import __version__
from headrace.config.broker import BrokerConfig
from headrace.model.invariant import InvariantError
from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld

if TYPE_CHECKING:
    from headrace.posix.service_manager import ServiceManager

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_BROKEN = 70
"""A broken invariant (EX_SOFTWARE): stopped at once, without the clean-shutdown marker."""

GC_THRESHOLDS = (20_000, 2, 500)
"""Requests make no cycles; looking for some every 700 allocations costs and finds nothing. The
second number bounds how long the loop stands still while coordinators load: what they keep is
looked at in portions of 40,000."""


_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Fatal = Callable[[Exception], None]


class Served(Protocol):
    """What runs until a signal: a broker, or several."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def listening(self) -> list[str]: ...


S = TypeVar("S", bound=Served)
T = TypeVar("T")


def serve(
    config: BrokerConfig,
    *,
    started: Callable[[Server], None] | None = None,
    announced: bool = False,
) -> int:
    """Run a broker until SIGTERM or SIGINT, as `serve_until_signal`."""
    return serve_until_signal(
        lambda fatal: Server(config, RealWorld(config), fatal), started, announced=announced
    )


def serve_until_signal(
    make: Callable[[Fatal], S],
    started: Callable[[S], None] | None = None,
    *,
    announced: bool = False,
) -> int:
    """Run what `make` makes on the loop until SIGTERM or SIGINT; return the process's exit code.

    A second signal ends the process at once, as one that nobody takes: nothing is closed.

    Prints where it listens once it does, one line a listener on standard output, unless it is
    `announced` by `started`. ConfigError, before that, says in one line why it cannot start.
    """
    return run(_serve(make, started, announced=announced))


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the process's one coroutine on uvloop, or on asyncio where that is missing."""
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with runner:
        return runner.run(main)


def report_unexpected(
    fatal: Callable[[Exception], None], loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Log what a callback of the loop raised; a broken invariant goes to `fatal`."""
    error = context.get("exception")
    if isinstance(error, InvariantError):
        fatal(error)
    else:
        log.error(
            "a callback met a bug of Headrace, the broker goes on: please report it with this"
            " trace: %s", context.get("message", "no message"), exc_info=error,
        )  # fmt: skip


async def _serve(
    make: Callable[[Fatal], S], started: Callable[[S], None] | None, *, announced: bool
) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not ended.done():
            ended.set_result(code)

    def fatal(broken: Exception) -> None:
        log.critical(
            "stopping at once rather than serve doubtful data: an invariant of the broker does not"
            " hold, which is a bug: please report it with this trace. The next start recovers the"
            " logs",
            exc_info=broken,
        )
        end(EXIT_BROKEN)

    loop.set_exception_handler(partial(report_unexpected, fatal))

    def stop_for_signal() -> None:
        # A second one ends the process at once, whatever it does: by the kernel.
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        end(EXIT_OK)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop_for_signal)
    gc.disable()
    manager = _service_manager()
    server = make(fatal)
    await server.start()
    if not announced:
        for address in server.listening():
            sys.stdout.write(f"headrace {__version__} listens on {address}\n")
        sys.stdout.flush()
    if started is not None:
        started(server)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    if manager is not None:
        manager.ready(f"listens on {', '.join(server.listening())}")
    code = await ended
    if manager is not None:
        manager.stopping()
    if code == EXIT_OK:
        log.info(
            "stopping: a second SIGTERM or Ctrl-C ends it at once, and the next start recovers the"
            " logs"
        )
        await server.stop()
        log.info("stopped")
    if manager is not None:
        manager.close()
    return code


def _service_manager() -> "ServiceManager | None":
    """Return whoever started this process and wants to hear of it, None where nobody does."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    from headrace.posix.service_manager import ServiceManager

    return ServiceManager(os.environ)
