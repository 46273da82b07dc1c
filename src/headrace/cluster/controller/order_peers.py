"""`Peers`: the interface by which the controller's orders reach other brokers."""

from collections.abc import Collection, Mapping
from typing import Protocol

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Late, OrderTaker, unheard
from headrace.model.nouns import BrokerId


class Peers(Protocol):
    """Order channels to other brokers. Implemented by `peers.order_channels.OrderChannels`."""

    late: Late
    """Called with the outcome of orders that were answered too late."""
    suspects: Mapping[BrokerId, int]
    """Broker epochs of brokers whose answers are not waited for, as they seem to be dead."""

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return the order channel to a broker.

        None: `facts` do not have it, or there are no channels.
        """

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Close the channels to all registrations that are not in `alive`."""

    def close(self) -> None:
        """Close all channels: the term is over."""


class NoPeers:
    """Order channels of a broker that is alone, or whose orders reach others otherwise: none."""

    def __init__(self) -> None:
        self.late: Late = unheard
        self.suspects: Mapping[BrokerId, int] = {}

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return None: there are no channels."""

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
