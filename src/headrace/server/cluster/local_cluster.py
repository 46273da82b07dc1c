"""Several brokers in one process, for trying out a cluster: `headrace dev`.

Each is the broker that `headrace serve` runs, with its own directories and port. They share one
store file and are one cluster through it, each with a session of its own (ADR 25).
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from headrace.config.broker import BrokerConfig
from headrace.model.errors import ConfigError
from headrace.observe.logs import silenced
from headrace.posix.store.embedded_store import StoreFile
from headrace.server.assembly import Server
from headrace.server.real_world import RealWorld

MEET_SECONDS_MAX = 30.0
"""Longest wait, in seconds, until every started broker knows all others."""
_AMONG_BROKERS = ("headrace.cluster", "headrace.replication")
"""Loggers that are silent during the common stop."""


class LocalCluster:
    """Brokers of one process that start and stop together. Used on the event loop."""

    def __init__(
        self,
        configs: Collection[BrokerConfig],
        store_path: str,
        fatal: Callable[[Exception], None],
    ) -> None:
        """Store the configurations, one per broker; nothing is started before `start`.

        `store_path`: the brokers' common metadata store. `fatal` ends the process.
        """
        self._configs = configs
        self._store_path = store_path
        self._fatal = fatal
        self._file: StoreFile | None = None
        self.servers: list[Server] = []
        """The brokers that have started, in order of their start."""

    async def start(self) -> None:
        """Start the brokers one after another, and wait until each knows all others.

        Raises ConfigError.
        """
        self._file = StoreFile(self._store_path)
        try:
            for config in self._configs:
                server = Server(config, RealWorld(config, self._file), self._fatal)
                await server.start()
                self.servers.append(server)
            async with asyncio.timeout(MEET_SECONDS_MAX):
                while not self._have_met():  # noqa: ASYNC110 - once, at the start
                    await asyncio.sleep(0.01)
        except TimeoutError:
            await self.stop()
            raise ConfigError(
                f"the brokers did not discover each other within {MEET_SECONDS_MAX:g} s: the"
                " machine may be overloaded; start again"
            ) from None
        except BaseException:
            await self.stop()
            raise

    def _have_met(self) -> bool:
        here = len(self.servers)
        return all(len(server.broker.image.brokers) == here for server in self.servers)

    def listening(self) -> list[str]:
        """Return the addresses of all brokers, as `listeners` has them."""
        return [address for server in self.servers for address in server.listening()]

    def bootstrap(self) -> str:
        """Return the brokers' addresses for bootstrap.servers."""
        ends = [server.endpoints()[0] for server in self.servers]
        return ",".join(f"{end.host}:{end.port}" for end in ends)

    async def stop(self) -> None:
        """Stop the brokers cleanly: the controller last, as it elects leaders until then."""
        # Warnings about lost brokers mean nothing while all of them stop.
        with silenced(*_AMONG_BROKERS, below=logging.ERROR):
            await self._stop_in_turn()
        self.servers.clear()
        if self._file is not None:
            await self._file.close()
            self._file = None

    async def _stop_in_turn(self) -> None:
        order = sorted(self.servers, key=lambda server: server.controller.is_controller)
        for server in order:
            if server is order[-1]:  # no broker is left to take over its leaderships
                server.config = server.config.updated({"controlled.shutdown.enable": False})
            await server.stop()
