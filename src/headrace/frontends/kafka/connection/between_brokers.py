"""Who is believed to be a broker of the cluster."""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.authorisation import CLUSTER_ACTION, permits

if TYPE_CHECKING:
    from headrace.frontends.kafka.connection.handler import RequestContext


def may_be_replica(context: "RequestContext", replica_id: int) -> bool:
    """Tell whether who asks may be the broker `replica_id`, and read what is not committed yet.

    It is another registered broker, and who asks may act for the cluster (CVE-2018-1288: whoever
    says that he is a follower moves the high watermark).
    """
    broker = context.broker
    if replica_id == broker.broker_id or replica_id not in broker.image.brokers:
        return False
    return permits(context, CLUSTER_ACTION)
