"""What the controller knows of the ways to other brokers."""

from collections.abc import Collection
from typing import Protocol

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.decisions.orders import Late, OrderTaker, unheard
from headrace.model.nouns import BrokerId


class Peers(Protocol):
    """How orders reach other brokers."""

    late: Late
    """To be told of answers that came too late to be waited for."""

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return the way to a broker that `facts` know; None: there is none."""

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Give up on all brokers but these."""

    def close(self) -> None:
        """Order nothing any more: the term is over."""


class NoPeers:
    """No way to other brokers: there are none, or each hears of the others by other means."""

    def __init__(self) -> None:
        self.late: Late = unheard

    def __call__(self, broker: BrokerId, facts: ClusterFacts) -> OrderTaker | None:
        """Return None."""

    def keep(self, alive: Collection[BrokerInfo]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
