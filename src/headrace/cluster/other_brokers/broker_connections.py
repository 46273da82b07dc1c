"""One way to each other broker, for as long as that is registered as it was when it was made."""

from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from headrace.broker.metadata_image import BrokerInfo, ImageDelta, MetadataImage
from headrace.client.transport.port import Address
from headrace.model.nouns import BrokerId


class Closable(Protocol):
    """A way: who waits on it is told so when it is closed."""

    def close(self) -> None: ...


W = TypeVar("W", bound=Closable)


class _Known(NamedTuple, Generic[W]):
    broker: BrokerInfo
    way: W


class WaysToBrokers(Generic[W]):
    """Made when first needed; given up where a broker goes, or registers anew."""

    def __init__(self, image: MetadataImage, listener: str, make: Callable[[Address], W]) -> None:
        """`listener`: by which brokers reach each other. `make` makes a way to an address."""
        self._image = image
        self._listener = listener
        self._make = make
        self._known: dict[BrokerId, _Known[W]] = {}
        self._open = True
        image.observers.append(self._picture_changed)

    def to(self, broker: BrokerId) -> W | None:
        """Return the way to a broker; None where it is not there, or nobody is asked any more."""
        known = self._known.get(broker)
        if known is not None:
            return known.way
        info = self._image.brokers.get(broker) if self._open else None
        endpoint = None if info is None else info.endpoint(self._listener)
        if info is None or endpoint is None:
            return None
        way = self._make(Address(endpoint.host, endpoint.port))
        self._known[broker] = _Known(info, way)
        return way

    def close(self) -> None:
        """Give up on all."""
        self._open = False
        self._image.observers.remove(self._picture_changed)
        for broker in tuple(self._known):
            self._known.pop(broker).way.close()

    def _picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        if delta.brokers is None:
            return
        for broker, known in tuple(self._known.items()):
            if self._image.brokers.get(broker) != known.broker:
                del self._known[broker]
                known.way.close()
