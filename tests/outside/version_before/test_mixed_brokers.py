"""Brokers of two versions in one cluster: these tests of `tests/cluster` hold there, too."""

from tests.cluster.test_coordinator_kills import (
    test_a_group_goes_on_from_its_committed_offsets_when_its_coordinator_is_killed,
    test_a_transaction_is_committed_or_aborted_whole_when_its_coordinator_is_killed,
)
from tests.cluster.test_leader_kills import (
    test_what_was_acknowledged_is_kept_once_and_in_order_through_kills_of_leaders,
    test_what_was_acknowledged_is_kept_once_and_in_order_when_a_leader_stands_still,
)
from tests.cluster.test_rolling_restart import (
    test_a_rolling_restart_loses_and_doubles_nothing_and_no_producer_notices,
)
from tests.cluster.test_share_groups import (
    test_what_was_accepted_stays_so_when_a_broker_is_killed,
)

__all__ = [
    "test_a_group_goes_on_from_its_committed_offsets_when_its_coordinator_is_killed",
    "test_a_rolling_restart_loses_and_doubles_nothing_and_no_producer_notices",
    "test_a_transaction_is_committed_or_aborted_whole_when_its_coordinator_is_killed",
    "test_what_was_accepted_stays_so_when_a_broker_is_killed",
    "test_what_was_acknowledged_is_kept_once_and_in_order_through_kills_of_leaders",
    "test_what_was_acknowledged_is_kept_once_and_in_order_when_a_leader_stands_still",
]
