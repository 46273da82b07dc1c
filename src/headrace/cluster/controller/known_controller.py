"""Which broker is the controller, as far as this broker has read in the metadata store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.metadata_image import BrokerInfo, ImageDelta
from headrace.cluster.decisions.facts import with_epoch
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def _no_outage() -> str:
    """Report no outage: the store is this broker's own, or is being joined."""
    return ""


class KnownController:
    """The controller's id, and why this broker cannot act as the controller."""

    def __init__(self, broker: "Broker") -> None:
        """Begin before the store is read: no controller is known."""
        self._broker = broker
        self.id: BrokerId | None = None
        """The owner of `/controller` when the store was read last; None: no owner, or unknown."""
        self.outage = _no_outage
        """Returns since when the store has not answered this broker; empty: it answers."""

    def found(self, brokers: Sequence[BrokerInfo], controller: BrokerId | None) -> None:
        """Store the controller's id; update the metadata image by the brokers in the store."""
        self.id = controller
        image = self._broker.image
        shown = list(image.brokers.values())
        if not shown:  # the controller's orders, which say more, may have come before
            self._broker.publish(ImageDelta(brokers=brokers, controller_id=controller))
            return
        registered = {info.broker_id: info for info in brokers}
        again = [with_epoch(info, registered) for info in shown]
        if again != shown:  # a broker that registers again at the same address: orders omit that
            self._broker.publish(ImageDelta(brokers=again))

    def missing(self) -> list[str]:
        """Return why the cluster cannot be changed through this broker; empty: it can."""
        if outage := self.outage():
            return [outage]
        return ["no broker is registered as the controller"] if self.id is None else []

    def refusal(self) -> ApiError:
        """Return why this broker does not do what only the controller may do."""
        (reason,) = self.missing() or [
            f"broker {self.id} is the controller, not broker {self._broker.broker_id}"
        ]
        return ApiError(ErrorCode.NOT_CONTROLLER, reason)
