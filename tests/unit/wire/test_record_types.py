"""The numbers of the records that coordinators and controllers keep, as Kafka gives them out."""

from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS, KRAFT_CONTROLS
from headrace.wire.kafka.coordinator_records.state_tables import SHARE_STATE, TRANSACTION_STATE


def test_the_groups_topic_has_the_types_of_kafka_4_3_and_none_twice() -> None:
    classic, consumer = {0, 1, 2}, {3, 4, 5, 6, 7, 8, 16}
    share, streams = {10, 11, 12, 13, 14, 15}, {17, 19, 20, 21, 22, 23}
    assert set(CONSUMER_OFFSETS) == classic | consumer | share | streams


def test_transactions_share_states_and_controls_have_their_types() -> None:
    assert set(TRANSACTION_STATE) == {0}
    assert set(SHARE_STATE) == {0, 1}
    assert set(KRAFT_CONTROLS) == {2, 3, 4, 5, 6}
