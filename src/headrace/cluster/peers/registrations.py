"""`Registrations`: one conversation for each registration of a broker, closed when that ends.

A broker that restarts registers with a new broker epoch and perhaps a new address. Then the
conversation with its former registration is closed, and the next request begins a new one.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.broker.metadata_image import BrokerInfo, ImageDelta, MetadataImage
from headrace.client.transport.port import Address
from headrace.model.nouns import BrokerId


class Closable(Protocol):
    """A conversation, or several with one broker; `close` ends each question without an answer."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class _Known(NamedTuple, Generic[C]):
    broker: BrokerInfo
    conversation: C


class Registrations(Generic[C]):
    """The open conversation with each broker, for its present registration."""

    def __init__(self) -> None:
        self._known: dict[BrokerId, _Known[C]] = {}

    def of(self, broker: BrokerInfo, make: Callable[[], C]) -> C:
        """Return the conversation with this registration; `make` creates it on first use.

        The conversation with a former registration of the broker is closed.
        """
        known = self._known.get(broker.broker_id)
        if known is not None and known.broker == broker:
            return known.conversation
        conversation = make()
        self._known[broker.broker_id] = _Known(broker, conversation)
        if known is not None:  # its callers may ask again at once: the new one is there by then
            known.conversation.close()
        return conversation

    def keep(self, registered: Collection[BrokerInfo]) -> None:
        """Close the conversations with all registrations that are not in `registered`."""
        present = {broker.broker_id: broker for broker in registered}
        for broker, known in tuple(self._known.items()):
            if present.get(broker) != known.broker:
                del self._known[broker]
                known.conversation.close()


class RegisteredPeers(Generic[C]):
    """Conversations with the brokers of the metadata image, closed as their registrations end."""

    def __init__(self, image: MetadataImage, listener: str, make: Callable[[Address], C]) -> None:
        """Observe `image`. `listener`: inter-broker listener; `make` creates one for an address."""
        self._image = image
        self._listener = listener
        self._make = make
        self._conversations: Registrations[C] = Registrations()
        self._open = True
        image.observers.append(self._image_changed)

    def to(self, broker: BrokerId) -> C | None:
        """Return the conversation with a broker.

        None: it is not registered, it has no inter-broker listener, or `close` was called.
        """
        info = self._image.brokers.get(broker) if self._open else None
        address = None if info is None else listener_address(info, self._listener)
        if info is None or address is None:
            return None
        return self._conversations.of(info, partial(self._make, address))

    def close(self) -> None:
        """Close all conversations, and create none any more."""
        self._open = False
        self._image.observers.remove(self._image_changed)
        self._conversations.keep(())

    def _image_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.brokers is not None:
            self._conversations.keep(self._image.brokers.values())


def listener_address(broker: BrokerInfo, listener: str) -> Address | None:
    """Return the address of a broker's listener, or None if it has no listener of that name."""
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)
