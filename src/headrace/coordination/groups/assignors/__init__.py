"""Who reads which partition, decided by the coordinator: the assignors of the newer protocols.

    spec      what an assignor is asked, and what it answers
    uniform   as even as can be, moving as little as it can (KIP-848's default)
    mixed     the same where members subscribe to different topics
    ranges    per topic a run of partitions each; topics of one size are split alike

Pure functions: the same question has the same answer. Racks are not looked at, as in Kafka 4.
"""

from headrace.coordination.groups.assignors.range_assignor import assign as assign_ranges
from headrace.coordination.groups.assignors.spec import Assignor
from headrace.coordination.groups.assignors.uniform import assign as assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names clients ask for (`group.remote.assignor`)."""
