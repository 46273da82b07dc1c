"""`Unreleased`: parts of a cluster's broker that are built and that no setting turns on yet."""

from collections.abc import Callable
from typing import NamedTuple


class Unreleased(NamedTuple):
    """Parts of a broker that tests and simulations turn on."""

    sole_leaders: Callable[[str], bool] | None = None
    """Whether a topic's leader must be the only one; None: that of no topic."""
    queues: bool = False
    """Whether the broker serves queues of the cluster (ADR 76 to 79)."""
    declarations: bool = False
    """Whether the broker follows the declarations of AMQP's vhosts (ADR 76)."""
