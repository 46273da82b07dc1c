"""`BrokerWatches`: connections to all other brokers, by whose end dead brokers are noticed early.

    connected ── the connection ends ──► refused, 50 ms later again ──► suspected ── the controller
        ▲                                     │                            │   elects other leaders
        └───────────── connected ─────────────┴────────────────────────────┘

The kernel ends the connections of a killed process at once, while its session of the store lasts
for its timeout. A refusal (`NotListening`) after that shows that the machine answers and no process
listens. A timeout shows nothing: a pause, a partition or a machine without power waits for the end
of the session. ADR 78 says why an election of another in-sync replica is safe in any case.
"""

import asyncio
import logging
from functools import partial

from headrace.broker.metadata_image import BrokerInfo, ImageDelta
from headrace.client.transport.events import EventLink
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address, NotListening
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions.events import BrokerSuspected
from headrace.cluster.peers.conversation import Run
from headrace.cluster.peers.registrations import Registrations, listener_address
from headrace.cluster.store import znodes
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.invariant import invariant
from headrace.model.nouns import BrokerId
from headrace.ports.store import BadVersion, Check, Delete, Node, NoNode, Store, StoreError

_logger = logging.getLogger(__name__)

REFUSALS = 2
"""Refused connections in a row after which a broker is suspected."""
REFUSED_SECONDS = 0.05
"""Seconds between them."""
REFUSALS_MAX = 40
"""Refusals after which a broker is tried less often, each AGAIN_SECONDS."""
SHORT_MAX = 3
"""Connections in a row that failed, or were shorter than AGAIN_SECONDS, before a pause."""
AGAIN_SECONDS = 1.0
"""Seconds until a broker that could not be reached is tried again."""


class BrokerWatches:
    """A connection to each other registered broker, from `start` to `close`."""

    def __init__(
        self, controller: Controller, store: Store, clients: PeerClients, run: Run
    ) -> None:
        """Create without connections. `run` starts a task on the event loop."""
        self.controller = controller
        self.store = store
        self.clients = clients
        self.run = run
        self._broker = controller.broker
        self._watches: Registrations[_Watch] = Registrations()

    def start(self) -> None:
        """Watch all brokers of the metadata image, now and after each change."""
        self._broker.image.observers.append(self._image_changed)
        self._look()

    def close(self) -> None:
        """Close all connections."""
        if self._image_changed in self._broker.image.observers:
            self._broker.image.observers.remove(self._image_changed)
        self._watches.keep(())

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.brokers is not None:
            self._look()

    def _look(self) -> None:
        registered = self._broker.image.brokers.values()
        self._watches.keep(registered)
        for info in registered:
            address = listener_address(info, self._broker.config.inter_broker_listener_name)
            if info.broker_id != self._broker.broker_id and address is not None:
                self._watches.of(info, partial(_Watch, self, info, address))


class _Watch:
    """The watch over one registration of a broker."""

    def __init__(self, watches: BrokerWatches, info: BrokerInfo, address: Address) -> None:
        self._watches = watches
        self._info = info
        self._address = address
        self._image = watches.controller.broker.image
        self._client = watches.clients.make(f"broker-{watches.controller.broker.broker_id}-watch")
        self._is_decided = False
        """Whether this broker, as the controller, has decided about the suspicion."""
        self._is_deposed = False
        """Whether this broker has ended the suspect's time as the controller: once, as it might
        live and be elected again."""
        self._task = watches.run(self._watch())

    def close(self) -> None:
        """End the watch: the registration has ended."""
        self._task.cancel()
        self._client.close()
        self._believe()

    async def _watch(self) -> None:
        was_connected, refused, short = False, 0, 0
        while True:
            seconds = AGAIN_SECONDS
            try:
                link = await self._client.link_to(self._address)
            except NotListening:
                refused += 1
                if refused >= REFUSALS and was_connected:
                    await self._suspect()
                if refused < REFUSALS_MAX and not self._is_decided:
                    seconds = REFUSED_SECONDS
            except HeadraceError:
                refused, short = 0, short + 1
                if was_connected and short <= SHORT_MAX:
                    # The kernel of a killed process ends its connections before it stops accepting
                    # new ones: it resets these.
                    seconds = REFUSED_SECONDS
            else:
                was_connected, refused = True, 0
                self._believe()
                began = self._client.transport.now()
                invariant(isinstance(link, EventLink), "peers are connected on the event loop")
                if isinstance(link, EventLink):
                    await link.wait_ended()
                short = 0 if self._client.transport.now() - began >= AGAIN_SECONDS else short + 1
                # A broker may close each connection; it is not connected to without a pause.
                seconds = 0.0 if short <= SHORT_MAX else AGAIN_SECONDS
            await asyncio.sleep(seconds)

    def _believe(self) -> None:
        """Withdraw the suspicion."""
        self._is_decided = self._is_deposed = False
        self._image.believe(self._info.broker_id, self._info.epoch)

    async def _suspect(self) -> None:
        """Have the controller elect other leaders; if it is the suspect, have another one elected.

        Another controller has its own watch.
        """
        suspect, controller = self._info, self._watches.controller
        if self._image.suspect(suspect.broker_id, suspect.epoch):
            _logger.info(
                "broker %d has ended its connections, and %s refuses new ones: other in-sync"
                " replicas are to lead its partitions, although its session is not over",
                suspect.broker_id, self._address,
            )  # fmt: skip
        try:
            if controller.is_controller:
                if not self._is_decided:
                    await controller.carry_out(BrokerSuspected(suspect.broker_id, suspect.epoch))
                self._is_decided = True
            elif controller.known.id == suspect.broker_id and not self._is_deposed:
                store = self._watches.store
                self._is_deposed = await depose(store, suspect.broker_id, suspect.epoch)
        except (ApiError, StoreError) as error:
            _logger.info("broker %d is suspected; retrying: %s", suspect.broker_id, error)


async def depose(store: Store, broker: BrokerId, broker_epoch: int) -> bool:
    """Delete `/controller` if this registration's session owns it; return whether it did.

    Another election follows and raises the controller epoch, so that the deposed controller writes
    nothing more, if it lives. Raises StoreError.
    """
    elections = await store.get(znodes.CONTROLLER_EPOCH)
    registration = await _get(store, znodes.broker_path(broker))
    node = await _get(store, znodes.CONTROLLER)
    if registration is None or registration.created != broker_epoch:
        return False
    if node is None or node.owner != registration.owner:
        return False
    unchanged = Check(znodes.CONTROLLER_EPOCH, elections.version)
    try:
        await store.multi([unchanged, Delete(znodes.CONTROLLER, node.version)])
    except (BadVersion, NoNode):
        return False  # another controller was elected meanwhile
    return True


async def _get(store: Store, path: str) -> Node | None:
    try:
        return await store.get(path)
    except NoNode:
        return None
