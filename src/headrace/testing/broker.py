"""`BrokerThread` runs a broker in a thread."""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from headrace.cluster.topics.creation import NewTopic
from headrace.config.broker import load
from headrace.model.errors import ApiError, ErrorCode
from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld
from headrace.testing.guard import ClientSettings, Guard
from headrace.testing.records import StoredRecord, stored

T = TypeVar("T")

_START_SECONDS_MAX = 30.0
_STOP_SECONDS_MAX = 30.0
_CALL_SECONDS_MAX = 30.0
_MEMORY = "/dev/shm"  # noqa: S108 - a file system in memory, used like a temporary directory
_MEMORY_BYTES_MIN = 256 << 20


class BrokerThread:
    """A broker in a thread. Use it as a context manager, or call `start` and `stop`.

    It listens on a free port of 127.0.0.1 and runs its own event loop. Its data lies in a temporary
    directory, or in a given one, from which a later broker continues.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        directory: str | None = None,
        memory: bool = False,
        security: str | None = None,
        mechanism: str = "SCRAM-SHA-512",
    ) -> None:
        """Set the broker up without starting it.

        `directory`: the log directory, kept afterwards; without one a temporary one is removed.
        `memory`: the temporary one lies in memory (/dev/shm) where there is room for that.
        `security`: SASL_SSL, SASL_PLAINTEXT (by `mechanism`: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)
        or SSL, with client certificates; `clients` has the clients' settings.
        """
        self._security = None if security is None else (security, mechanism)
        self._keys: tempfile.TemporaryDirectory[str] | None = None
        self._guard: Guard | None = None
        self._memory = memory
        self._given = dict(config or {})
        self._temporary = directory is None
        self.directory = directory or ""
        self.server: Server
        """The broker's internals; access them through `call` only."""
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self._clean = True
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.server.listeners[0].port

    @property
    def bootstrap(self) -> str:
        """The value of bootstrap.servers for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def clients(self) -> ClientSettings:
        """Settings with which each kind of client connects."""
        return ClientSettings(self.bootstrap, self._guard)

    def start(self) -> Self:
        """Start the broker and wait until it listens. Raises the error that prevented the start."""
        if self._security is not None and self._guard is None:
            self._keys = tempfile.TemporaryDirectory(prefix="headrace-test-keys-")
            try:
                self._guard = Guard(*self._security, Path(self._keys.name))
            except BaseException:
                self._forget_keys()
                raise
        if self._temporary and not self.directory:
            where = _MEMORY if self._memory and _has_room(_MEMORY) else None
            self.directory = tempfile.mkdtemp(prefix="headrace-test-", dir=where)
        self._started.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS_MAX):
            raise TimeoutError("the broker does not start")
        failed = self._take_failure()
        if failed is not None:
            self._join()
            self._forget_keys()
            raise failed
        return self

    def _forget_keys(self) -> None:
        keys, self._keys, self._guard = self._keys, None, None
        if keys is not None:
            keys.cleanup()

    def stop(self) -> None:
        """Stop cleanly and remove the directory if it is a temporary one."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._end.set)
        self._join()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = ""
        self._forget_keys()
        failed = self._take_failure()
        if failed is not None:
            raise failed

    def _take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        return failure

    def call(self, function: Callable[[Server], T]) -> T:
        """Run `function` on the broker's own thread and return its result."""

        async def run(server: Server) -> T:
            return function(server)

        return self.run(run)

    def run(self, work: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine of `work` on the broker's event loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(work(self.server), self._loop)
        return future.result(_CALL_SECONDS_MAX)

    def create_topics(
        self, *names: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics and return once they are usable; existing ones stay unchanged.

        Raises ApiError.
        """
        wanted = [NewTopic(name, partitions, config=dict(config or {})) for name in names]
        for outcome in self.run(lambda server: server.controller.create_topics(wanted)):
            if isinstance(outcome, ApiError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise outcome

    def delete_topics(self, *names: str) -> None:
        """Delete topics; missing ones are ignored. Raises ApiError."""
        outcomes = self.run(lambda server: server.controller.delete_topics(names))
        for error in outcomes.values():
            if error is not None and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error

    def records(self, topic: str, *, last: int | None = None) -> list[StoredRecord]:
        """Return the records of `topic` that consumers can read, partition by partition.

        Leaves out control records. `last` limits the result to that many newest offsets of each
        partition. ApiError UNKNOWN_TOPIC_OR_PARTITION.
        """
        return self.call(lambda server: stored(server.broker, topic, last))

    def topics(self) -> list[str]:
        """Return the names of all topics except the internal ones, sorted."""
        return self.call(
            lambda server: sorted(
                name for name, topic in server.broker.image.topics.items() if not topic.internal
            )
        )

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
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
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
            **({} if self._guard is None else self._guard.broker_settings()),
            **self._given,
        }
        config, _ = load(flags=given)
        broken: list[Exception] = []

        def fatal(error: Exception) -> None:
            broken.append(error)
            self._end.set()

        self.server = Server(config, RealWorld(config), fatal)
        await self.server.start()
        if self._guard is not None:
            await self._guard.let_in(self.server)
        self._started.set()
        await self._end.wait()
        await self.server.stop()
        if broken:
            raise broken[0]


def _has_room(path: str) -> bool:
    """Tell whether the file system of `path` has room for test data; containers often have 64
    MB."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return os.access(path, os.W_OK) and found.f_bavail * found.f_frsize >= _MEMORY_BYTES_MIN
