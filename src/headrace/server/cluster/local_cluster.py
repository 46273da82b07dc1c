"""Several brokers of one process, for trying a cluster out: `headrace dev`.

Each is the broker that `headrace serve` runs, in directories and on a port of its own; they are one
cluster by a store that they share, each in a session of its own (ADR 25).
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
"""How long brokers that have started may take until each knows of all."""
_AMONG_BROKERS = ("headrace.cluster", "headrace.replication")


class LocalCluster:
    """Brokers that start and stop together. Used on the loop."""

    def __init__(
        self,
        configs: Collection[BrokerConfig],
        store_path: str,
        fatal: Callable[[Exception], None],
    ) -> None:
        """One broker for each of `configs`; `fatal` as for `Server`."""
        self._configs = configs
        self._store_path = store_path
        self._fatal = fatal
        self._file: StoreFile | None = None
        self.servers: list[Server] = []
        """Those that have started, in their order."""

    async def start(self) -> None:
        """Start them one after the other; all know of each other then. ConfigError."""
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
                f"the brokers did not all hear of each other within {MEET_SECONDS_MAX:g} s: is the"
                " machine very busy? start again"
            ) from None
        except BaseException:
            await self.stop()
            raise

    def _have_met(self) -> bool:
        here = len(self.servers)
        return all(len(server.broker.image.brokers) == here for server in self.servers)

    def listening(self) -> list[str]:
        """Return the addresses they listen on, as in `listeners`."""
        return [address for server in self.servers for address in server.listening()]

    def bootstrap(self) -> str:
        """Return what clients take as bootstrap.servers."""
        ends = [server.endpoints()[0] for server in self.servers]
        return ",".join(f"{end.host}:{end.port}" for end in ends)

    async def stop(self) -> None:
        """Stop them cleanly: the controller last, so that somebody decides until then."""
        # That another is not heard of any more is no news while all stop.
        with silenced(*_AMONG_BROKERS, below=logging.ERROR):
            await self._stop_in_turn()
        self.servers.clear()
        if self._file is not None:
            await self._file.close()
            self._file = None

    async def _stop_in_turn(self) -> None:
        order = sorted(self.servers, key=lambda server: server.controller.is_controller)
        for server in order:
            if server is order[-1]:  # nobody is left to hand over to
                server.config = server.config.updated({"controlled.shutdown.enable": False})
            await server.stop()
