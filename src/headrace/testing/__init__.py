"""A real broker inside a test's own process: real sockets, real files, no child process.

    with BrokerThread() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})

It listens on 127.0.0.1 at a free port, keeps its data in a temporary directory (or in the one it is
given, so that a second one goes on where the first stopped), and runs its own event loop in a
thread.
"""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from headrace.config.broker import load
from headrace.server.wiring import Server

__all__ = ["BrokerThread"]

T = TypeVar("T")

_START_SECONDS_MAX = 30.0
_STOP_SECONDS_MAX = 30.0


class BrokerThread:
    """One broker in a thread. Use as a context manager, or `start` and `stop`."""

    def __init__(
        self, config: Mapping[str, str] | None = None, *, directory: str | None = None
    ) -> None:
        """`config`: Kafka's names, over `listeners=PLAINTEXT://127.0.0.1:0`.

        `directory`: the log directory, kept afterwards; without one a temporary one is removed.
        """
        self._given = dict(config or {})
        self._temporary = directory is None
        self.directory = directory or ""
        self.server: Server
        """The broker's insides; touch them through `call` only."""
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._clean = True
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None

    @property
    def port(self) -> int:
        """The first listener's port."""
        return self.server.listeners[0].port

    @property
    def bootstrap(self) -> str:
        """What clients take as bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start and wait until it listens; raises what kept it from that."""
        if self._temporary and not self.directory:
            self.directory = tempfile.mkdtemp(prefix="headrace-test-")
        self._started.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS_MAX):
            raise TimeoutError("the broker does not start")
        failed = self._take_failure()
        if failed is not None:
            self._join()
            raise failed
        return self

    def stop(self) -> None:
        """Stop cleanly and remove the directory if it is a temporary one."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._end.set)
        self._join()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = ""
        failed = self._take_failure()
        if failed is not None:
            raise failed

    def _take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        return failure

    def call(self, function: Callable[[Server], T]) -> T:
        """Run `function` on the broker's own thread and return its result."""

        async def run() -> T:
            return function(self.server)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_STOP_SECONDS_MAX)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _join(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_STOP_SECONDS_MAX)
            if thread.is_alive():
                raise TimeoutError("the broker does not stop")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        given = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": self.directory,
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            **self._given,
        }
        config, _ = load(flags=given)
        broken: list[Exception] = []

        def fatal(error: Exception) -> None:
            broken.append(error)
            self._end.set()

        self.server = Server(config, fatal)
        await self.server.start()
        self._started.set()
        await self._end.wait()
        await self.server.stop()
        if broken:
            raise broken[0]
