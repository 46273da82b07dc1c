"""What Kafka's tools are asked, in order: each step finds what the ones before it left.

`{broker}` is the broker's address, `{place}` a directory of the run. A step needs the APIs it
names; where they are not served it is not run and said to be left out.
"""

from collections.abc import Callable

from tests.outside.kafka_tools import formatters, steps_admin, steps_data, steps_groups, steps_more
from tests.outside.kafka_tools.step import Step

SECTIONS: dict[str, Callable[[], list[Step]]] = {
    "topics": steps_admin.topics,
    "configs": steps_admin.configs,
    "quotas": steps_admin.quotas,
    "metrics": steps_admin.metrics,
    "console": steps_data.console,
    "groups": steps_groups.groups,
    "members": steps_groups.members,
    "offsets": steps_data.offsets,
    "transactions": steps_groups.transactions,
    "share": steps_groups.share,
    "measuring": steps_data.measuring,
    "formatters": formatters.formatters,
    "cluster": steps_more.cluster,
    "security": steps_more.without_security,
    "refused": steps_more.refused,
    "restarted": steps_more.restarted,
}
"""All steps, in the order in which they run."""
BEFORE = {
    "configs": ("topics",),
    "groups": ("console",),
    "members": ("console",),
    "offsets": ("console",),
    "share": ("console",),
    "formatters": ("console", "transactions", "share"),
    "cluster": ("console",),
    "restarted": ("console",),
}
"""What must have run before a section."""
