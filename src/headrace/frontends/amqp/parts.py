"""The objects that the AMQP frontend of a broker is made of."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.broker.broker import Broker
from headrace.cluster.controller_port import ControllerPort
from headrace.net.write_pass import Writes
from headrace.operations.registry import Operations
from headrace.ports.store import Store
from headrace.queue_stores.log.copies_port import CopiedFiles
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.vhosts.queue_topics import QueueTopics

if TYPE_CHECKING:
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.remote_queues.home.replies_elsewhere import RepliesElsewhere
    from headrace.remote_queues.leader.leader_session import DeliverReply
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations
    from headrace.vhosts.declarations.coordinator import AccessOf
    from headrace.vhosts.declarations.takeover import DeclarationNodes
    from headrace.vhosts.policies.visits import PolicyVisits


class Parts(Protocol):
    """The objects that a frontend is made of. Implemented by `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""

    @property
    def writes(self) -> Writes:
        """The writes of a pass, gathered until its end."""

    @property
    def controller(self) -> ControllerPort:
        """The controller, which creates and deletes topics, and stores vhosts and users."""

    @property
    def store(self) -> Store | None:
        """The open metadata store, which has an earlier version's declarations; None: it is not
        available."""

    @property
    def operations(self) -> Operations:
        """Registry for the operations of administrators."""

    @property
    def cluster(self) -> "QueueCluster | None":
        """This broker's part in the queues of a cluster; None: it is a single broker."""


class QueueCluster(Protocol):
    """A broker's part in the queues of a cluster. Implemented by `server.cluster`."""

    @property
    def settled_copies(self) -> CopiedFiles:
        """The files of queues' settled positions, and their copies."""

    def follow(
        self, topics: QueueTopics, access: "AccessOf", nodes: "DeclarationNodes"
    ) -> "ClusterDeclarations":
        """Return the declarations of all vhosts; call it once, before the broker joins.

        `topics` makes the stores of queues. `access` returns a client's permissions in a vhost.
        `nodes`: declarations of earlier versions, which are taken over.
        """

    def serve(
        self, virtual_hosts: VirtualHosts, topics: QueueTopics, visits: "PolicyVisits"
    ) -> None:
        """Run the queues of the vhosts that have the declarations, here or on other brokers."""

    def use(self, vhost: str, queue: "DeclaredQueue") -> None:
        """Have the topic of a durable queue created, unless it exists; call it after `serve`."""

    def share_alarms(self, block: Callable[[str | None], None]) -> Callable[[frozenset[str]], None]:
        """Block publishers by the alarms of all brokers; return the function that takes ours.

        `block` is called with the reason that publishers are sent; None: they may go on.
        """

    def share_replies(self, deliver: "DeliverReply") -> "RepliesElsewhere":
        """Return the direct replies to channels of other brokers; call it after `serve`.

        `deliver` takes those for channels of this broker.
        """

    def stop_leading(self) -> None:
        """Follow changes of leaders no longer: the queues' stores are closed next."""
