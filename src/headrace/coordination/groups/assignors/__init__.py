"""Server-side assignors: which member of a consumer group reads which partition.

    spec      input and output of an assignor
    uniform   balanced, moving as few partitions as possible (KIP-848's default)
    mixed     the uniform assignor for members with different subscriptions
    ranges    per topic a range of partitions each; topics of equal size are split alike

Pure functions: the same input has the same result. Racks are ignored, as in Kafka 4.
"""

from headrace.coordination.groups.assignors.range_assignor import assign as assign_ranges
from headrace.coordination.groups.assignors.spec import Assignor
from headrace.coordination.groups.assignors.uniform import assign as assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by the name that clients request (`group.remote.assignor`)."""
