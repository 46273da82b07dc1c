"""Simulated machines and the network between them: delays, cuts, refused connections."""

import errno
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.model.invariant import invariant
from headrace.ports.network import ListenOptions
from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop
from headrace.testing.sim.transport import Place, SimTransport

if TYPE_CHECKING:
    import asyncio
    from ssl import SSLContext

P = TypeVar("P")

DELAY_SECONDS = (0.00005, 0.002)
"""Least and greatest delay from one machine to another, in seconds."""
_WHOLE_PIECES = 0.8
"""Share of pieces that arrive undivided."""
_FIRST_FREE_PORT = 30_000


class SimListening:
    """A listening port of a machine. Implements `ports.network.Listening`."""

    def __init__(self, network: "SimNetwork", place: Place) -> None:
        self.port = place.port
        self._network = network
        self._place = place
        self._made: Callable[[], Any] | None = None
        self._early: list[SimTransport] = []

    def arrive(self, transport: SimTransport) -> None:
        """Accept a connection, or queue it until `accept` is called."""
        if self._made is None:
            self._early.append(transport)
        else:
            self._network.loop.call_soon(transport.begin, self._made)

    async def accept(self, made: Callable[[], Any]) -> None:
        """Start to accept, queued connections first."""
        self._made = made
        early, self._early = self._early, []
        for transport in early:
            self.arrive(transport)

    def close(self) -> None:
        """Stop listening and abort queued connections."""
        self._network.forget(self._place)
        for transport in self._early:
            transport.abort()
        self._early.clear()


class Machine:
    """The network as seen from one machine. Implements `ports.network.Network`."""

    def __init__(self, network: "SimNetwork", name: str) -> None:
        self._network = network
        self._name = name
        self._off = False

    def host_name(self) -> str:
        """Return the machine's name, which is also its address."""
        return self._name

    def listen(self, host: str, port: int, options: ListenOptions) -> SimListening:
        """Bind a port; OSError if it is in use."""
        return self._network.listen(Place(self._name, port or self._network.free_port()))

    def listen_local(self, path: str, backlog: int = 0) -> None:
        """Return None: simulated brokers have no Unix socket."""

    async def connect(
        self, made: Callable[[], P], host: str, port: int, tls: "SSLContext | None" = None
    ) -> P:
        """Connect to a port of machine `host`; hangs while the link is cut."""
        invariant(tls is None, "simulated machines speak plain text")
        own = Place(self._name, self._network.free_port())
        transport = await self._network.connect(own, Place(host, port))
        if self._off:
            transport.vanish()
            await self._network.loop.create_future()
        protocol: P = transport.begin(made)
        return protocol

    def pause(self) -> None:
        """Hold back all data that arrives at the machine, until `resume`."""
        self._network.hold(self._name)

    def resume(self) -> None:
        """Deliver what has arrived meanwhile."""
        self._network.let_go(self._name)

    def cut_power(self) -> None:
        """End all connections; connects under way never complete."""
        self._off = True
        self._network.cut_power(self._name)


class SimNetwork:
    """All machines of a simulation and the links between them."""

    def __init__(self, loop: SimLoop, seed: int, history: History) -> None:
        """Create a network; `seed` determines delays and how data is divided."""
        self.loop = loop
        self.history = history
        self._random = random.Random(f"network {seed}")  # noqa: S311 - not for secrets
        self._listening: dict[Place, SimListening] = {}
        self._transports: dict[SimTransport, None] = {}
        """Open ends of connections, in order of creation."""
        self._cut: dict[tuple[str, str], list[Callable[[], None]]] = {}
        """Cut links (source, target), each with what waits to be retransmitted."""
        self._held: dict[str, list[Callable[[], None]]] = {}
        """Paused machines, each with what has arrived for it."""
        self._refusing: set[tuple[str, str]] = set()
        """Links (source, target) over which connections are refused."""
        self._slower: dict[tuple[str, str], float] = {}
        """Factor on the delay, by link (source, target)."""
        self._made = 0
        self._port = _FIRST_FREE_PORT

    def machine(self, name: str) -> Machine:
        """Return the network as seen from the machine of that name."""
        return Machine(self, name)

    def free_port(self) -> int:
        """Return a port that was never used."""
        self._port += 1
        return self._port

    def listen(self, place: Place) -> SimListening:
        """Bind a port of a machine; OSError if it is in use."""
        if place in self._listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        listening = self._listening[place] = SimListening(self, place)
        return listening

    def forget(self, place: Place) -> None:
        """Unbind a listening port."""
        self._listening.pop(place, None)

    # --- links

    def carry(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        """Call `arrive` after the link's delay, or after its repair, as TCP retransmits."""
        delay = self._random.uniform(*DELAY_SECONDS) * self._slower.get((source, target), 1.0)
        self.loop.call_later(delay, self._at_end, source, target, arrive)

    def _at_end(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        held = self._held.get(target)
        waiting = self._cut.get((source, target)) if held is None else held
        if waiting is None:
            arrive()
        else:
            waiting.append(arrive)

    def piece_size(self, size: int) -> int:
        """Return how many of `size` bytes travel in one piece."""
        if size == 1 or self._random.random() < _WHOLE_PIECES:
            return size
        return self._random.randrange(1, size)

    def cut(self, source: str, target: str) -> None:
        """Cut the link from `source` to `target`; the opposite direction is another link."""
        self.history.add("cut", source, target)
        self._cut.setdefault((source, target), [])

    def mend(self, source: str, target: str) -> None:
        """Restore a link; what waited arrives."""
        self.history.add("mend", source, target)
        for arrive in self._cut.pop((source, target), ()):
            self.carry(source, target, arrive)

    def slow(self, source: str, target: str, times: float) -> None:
        """Multiply a link's delay by `times` from now on; 1 restores it."""
        self.history.add("slow", source, target, times)
        self._slower[source, target] = times

    def hold(self, machine: str) -> None:
        """Hold back everything that arrives at a machine, until `let_go`."""
        self._held.setdefault(machine, [])

    def let_go(self, machine: str) -> None:
        """Deliver the data that `hold` held back for a machine."""
        for arrive in self._held.pop(machine, ()):
            self.carry(machine, machine, arrive)

    def break_links(self, first: str, second: str) -> None:
        """Reset all connections from one machine to another, like a firewall that lost state."""
        for transport in tuple(self._transports):
            if transport.own.machine == first and transport.peer.machine == second:
                transport.other.reset()
                transport.reset()

    def refuse(self, source: str, target: str) -> None:
        """Refuse new connections from one machine to another, like a firewall, until `admit`."""
        self.history.add("refuse", source, target)
        self._refusing.add((source, target))

    def admit(self, source: str, target: str) -> None:
        """Admit the connections that `refuse` has refused."""
        self.history.add("admit", source, target)
        self._refusing.discard((source, target))

    def strand(self, sender: str, receiver: str, seconds: float) -> None:
        """Reset the sender's connections; what it sent on them arrives `seconds` later.

        So what it sends on new connections overtakes that.
        """
        self.history.add("strand", sender, receiver, seconds)
        for transport in tuple(self._transports):
            if transport.own.machine == sender and transport.peer.machine == receiver:
                transport.strand(seconds)

    def cut_power(self, machine: str) -> None:
        """End everything of a machine without notice to it; peers get a reset."""
        self.history.add("power", machine)
        self._held.pop(machine, None)
        for place in [place for place in self._listening if place.machine == machine]:
            self.forget(place)
        for transport in tuple(self._transports):
            if transport.own.machine == machine:
                transport.reset_other()
                transport.vanish()

    # --- connections

    async def connect(self, own: Place, peer: Place) -> SimTransport:
        """Connect one place to another. Raises ConnectionRefusedError."""
        connected: asyncio.Future[SimTransport] = self.loop.create_future()

        def arrive() -> None:
            listening = self._listening.get(peer)
            if (own.machine, peer.machine) in self._refusing:
                listening = None
            self.history.add("connect", *own, "to", *peer, listening is not None)
            if listening is None:
                refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                back = partial(_fail, connected, refused)
            else:
                near, far = self._pair(own, peer)
                listening.arrive(far)
                back = partial(_give, connected, near)
            self.carry(peer.machine, own.machine, back)

        self.carry(own.machine, peer.machine, arrive)
        return await connected

    def _pair(self, own: Place, peer: Place) -> tuple[SimTransport, SimTransport]:
        self._made += 1
        near, far = (
            SimTransport(self, self._made, own, peer),
            SimTransport(self, self._made, peer, own),
        )
        near.other, far.other = far, near
        self._transports[near] = self._transports[far] = None
        return near, far

    def ended(self, transport: SimTransport) -> None:
        """Forget one end of a closed connection."""
        self._transports.pop(transport, None)


def _fail(connected: "asyncio.Future[SimTransport]", error: OSError) -> None:
    if not connected.done():
        connected.set_exception(error)


def _give(connected: "asyncio.Future[SimTransport]", transport: SimTransport) -> None:
    if connected.done():  # the caller was cancelled
        transport.abort()
    else:
        connected.set_result(transport)
