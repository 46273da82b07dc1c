"""The `World` of one simulated broker: clock, random source, disk, network and store session."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.testing.clock import SimRandom
from headrace.testing.sim.disk import LoopDisk
from headrace.testing.sim.ensemble import Ensemble, EnsembleSession
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.network import SimNetwork

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Random, Timer
    from headrace.ports.disk import BrokerDisk
    from headrace.ports.network import Network
    from headrace.ports.store import SessionEvents, Store

WALL_MS = 1_780_000_000_000
"""The wall clock at the start of every simulation, in milliseconds since 1970."""


class LoopClock:
    """The clock of a simulated broker, driven by a SimLoop (`ports.clock.Clock`)."""

    def __init__(self, loop: SimLoop, wall_ms: int = WALL_MS) -> None:
        """Create the clock; `wall_ms`: the wall clock at loop time 0."""
        self._loop = loop
        self._wall_ms = self._right_ms = wall_ms
        self.monotonic = loop.time
        self._stopped = False
        self._held: list[Callable[[], None]] | None = None
        """Callbacks held back while the machine is paused; None while it runs."""

    def wall_ms(self) -> int:
        """Return the simulated wall clock in milliseconds since 1970."""
        return self._wall_ms + int(self._loop.time() * 1000)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Timer":
        """Call back on the loop after `seconds`; 0: after the current callback."""
        if seconds <= 0:
            return self._loop.call_soon(self._call, callback)
        return self._loop.call_later(seconds, self._call, callback)

    def _call(self, callback: Callable[[], None]) -> None:
        if self._held is not None:
            self._held.append(callback)
        elif not self._stopped:
            callback()

    def set(self, milliseconds: int) -> None:
        """Set the wall clock `milliseconds` ahead of the right time.

        The loop's time is unaffected.
        """
        self._wall_ms = self._right_ms + milliseconds

    @property
    def paused(self) -> bool:
        """Whether callbacks are held back."""
        return self._held is not None

    def pause(self) -> None:
        """Hold back callbacks until `resume`; time passes."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Call the callbacks held back."""
        held, self._held = self._held, None
        for callback in held or ():
            self._loop.call_soon(self._call, callback)

    def stop(self) -> None:
        """Drop all scheduled callbacks from now on."""
        self._stopped = True


class SimWorld:
    """The `World` of one simulated broker (`ports.world.World`)."""

    has_processes = False

    def __init__(
        self,
        loop: SimLoop,
        name: str,
        seed: int,
        network: SimNetwork,
        ensemble: Ensemble,
        history: History,
        life: int = 0,
    ) -> None:
        """Create the machine `name` with an empty disk; `life`: see `SimRandom`."""
        self.name = name
        self._sim_clock = LoopClock(loop)
        self.clock: Clock = self._sim_clock
        self.random: Random = SimRandom(f"{name} {seed}", life)
        self.sim_disk = LoopDisk(loop, name, seed, self.clock.wall_ms, history)
        self.disk: BrokerDisk = self.sim_disk
        self._machine = network.machine(name)
        self.network: Network = self._machine
        self.boot_seconds = loop.time
        self._ensemble = ensemble
        self._sessions: list[EnsembleSession] = []

    def store_exists(self) -> bool:
        """Return True: the ensemble exists before any broker."""
        return True

    def shares_store(self) -> bool:
        """Return True: all simulated brokers share the ensemble."""
        return True

    def open_store(self, events: "SessionEvents") -> "Store":
        """Open a session with the simulated metadata store."""
        self._sessions.append(self._ensemble.session(self.name, events))
        return self._sessions[-1]

    def cut_power(self) -> None:
        """Stop the machine for good; only the timeouts of its sessions still run."""
        self._sim_clock.stop()
        self.sim_disk.cut_power()
        self._machine.cut_power()
        for session in self._sessions:
            session.fall_silent()

    def set_clock(self, milliseconds: int) -> None:
        """Set the wall clock `milliseconds` ahead of the right time (negative: behind)."""
        self._sim_clock.set(milliseconds)

    @property
    def paused(self) -> bool:
        """Whether the process is stopped by `pause`."""
        return self._sim_clock.paused

    def pause(self) -> None:
        """Stop the process, like SIGSTOP, until `resume`."""
        for part in (self._sim_clock, self.sim_disk, self._machine):
            part.pause()
        self.lose_touch()

    def resume(self) -> None:
        """Continue the process, which does not know that it was stopped."""
        for part in (self._sim_clock, self.sim_disk, self._machine):
            part.resume()
        self.regain_touch()

    def expire(self) -> None:
        """Expire the broker's session; it begins another."""
        for session in self._sessions:
            self._ensemble.expire(session)

    def lose_touch(self) -> None:
        """Cut the connection between broker and metadata store in both directions."""
        for session in self._sessions:
            self._ensemble.cut_off(session, noticed=False)

    def regain_touch(self) -> None:
        """Restore the connection between broker and metadata store."""
        for session in self._sessions:
            self._ensemble.reach_again(session)

    def close(self) -> None:
        """Do nothing: a simulated broker has no threads."""
