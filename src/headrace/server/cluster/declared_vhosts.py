"""The vhosts of a cluster's broker with the declarations of all brokers, which no client uses."""

from headrace.cluster.controller.controller import Controller
from headrace.cluster.peers.controller_link import ControllerLink
from headrace.cluster.peers.conversation import Run
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.permissions.access import FULL_ACCESS
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.server.cluster.declaration_links import DeclarationLinks
from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations, Links


def declarations(
    controller: Controller, link: ControllerLink, links: DeclarationLinks, run: Run
) -> ClusterDeclarations:
    """Return the declarations of a broker that joins the cluster later.

    No client is served yet, so commands need no permissions, and no queue has messages.
    """
    broker, applier = controller.broker, controller.applier
    made = ClusterDeclarations(
        broker,
        Links(
            links.ask,
            links.poll,
            lambda: applier.broker_epoch,
            lambda: controller.ensure_internal_topic(DECLARATIONS_TOPIC),
            link.change_queue_topics,
            run,
        ),
        lambda identity, vhost: FULL_ACCESS,
    )
    random = made.coordinator.name_bytes
    made.apply_to(VirtualHosts(broker.clock, random, stores_in_memory(MemoryUse()), made))
    return made
