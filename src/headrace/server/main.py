"""The process of a broker: event loop, signals, garbage collection settings, exit code."""

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
"""The exit code of a clean stop."""
EXIT_BROKEN = 70
"""The exit code after a broken invariant (EX_SOFTWARE).

The process ends at once and leaves no clean-shutdown marker, so the next start recovers the logs.
"""

GC_THRESHOLDS = (20_000, 2, 500)
"""Thresholds of `gc.set_threshold`, set once the broker has started.

Requests create no reference cycles: a collection every 700 allocations, the default, would find
nothing. The second number bounds a pause of the loop while coordinators load: their objects are
examined in portions of 40,000.
"""


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that stop the broker cleanly; a second one ends the process at once."""

Fatal = Callable[[Exception], None]
"""Called with a broken invariant's error; ends the process with `EXIT_BROKEN`."""


class Served(Protocol):
    """A broker, or several in one process, that runs until a signal."""

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
    """Run one broker until SIGTERM or SIGINT; return the exit code (see `serve_until_signal`)."""
    return serve_until_signal(
        lambda fatal: Server(config, RealWorld(config), fatal), started, announced=announced
    )


def serve_until_signal(
    make: Callable[[Fatal], S],
    started: Callable[[S], None] | None = None,
    *,
    announced: bool = False,
) -> int:
    """Start what `make` returns, run it until SIGTERM or SIGINT, stop it; return the exit code.

    A second signal ends the process at once, by the kernel's default action: nothing is closed.

    Once listening, one line per listener is printed to standard output, unless `announced`: then
    `started` prints. `started` is called once the broker has started. Raises ConfigError, one line,
    if the broker cannot start.
    """
    return run(_serve(make, started, announced=announced))


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the process's main coroutine on uvloop, or on asyncio if uvloop is not installed."""
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
    """Log an exception that a callback of the event loop raised.

    Pass a broken invariant to `fatal`.
    """
    error = context.get("exception")
    if isinstance(error, InvariantError):
        fatal(error)
    else:
        log.error(
            "unexpected error in a callback of the event loop, which is a bug in Headrace; the"
            " broker continues. Report it with this traceback: %s",
            context.get("message", "no message"), exc_info=error,
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
            "the broker exits (code %d), as an internal invariant is violated and continuing could"
            " corrupt data. This is a bug in Headrace: report it with this traceback. The next"
            " start recovers the logs",
            EXIT_BROKEN,
            exc_info=broken,
        )
        end(EXIT_BROKEN)

    loop.set_exception_handler(partial(report_unexpected, fatal))

    def stop_for_signal() -> None:
        # A second signal ends the process at once, in any state: the kernel's default action.
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
            "stopping cleanly; a second SIGTERM or Ctrl-C exits at once, and the next start then"
            " recovers the logs"
        )
        await server.stop()
        log.info("stopped")
    if manager is not None:
        manager.close()
    return code


def _service_manager() -> "ServiceManager | None":
    """Return the connection to the service manager (systemd's NOTIFY_SOCKET), None without one."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    from headrace.posix.service_manager import ServiceManager

    return ServiceManager(os.environ)
