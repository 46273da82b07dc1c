"""The rules that keep messages of RocketMQ's clients, each with the tests that hold it.

Rules 13 to 16 are of POP, which is not served yet: NOT_YET.
"""

from tests.support.named_rules import Rule

NOT_YET = {13: "POP", 14: "POP", 15: "POP", 16: "POP"}
"""Rules without a test, and what they need."""
RULES_IN_ALL = 22

_BROKER, _SIM = "tests/broker/frontends/rocketmq", "tests/unit/frontends/rocketmq"
_UNIT, _HELD = "tests/unit/subscriptions", "tests/unit/held"
_KILLS = (
    "tests/crash/test_remoting_held_kills.py::"
    "test_held_messages_and_offsets_survive_kills_and_all_doors_agree"
)
_LIVES = (
    "tests/property/subscriptions/test_remoting_lives.py::"
    "test_a_broker_delivers_retries_delays_and_transactions_and_keeps_offsets"
)
_WAITING = f"{_SIM}/test_rules_of_held_messages.py"
_DECIDED = f"{_SIM}/test_rules_of_transactions.py"
_OFFSETS = f"{_SIM}/test_rules_of_offsets.py"
_MEMBERS = f"{_SIM}/test_rules_of_members.py"
RULES: dict[int, Rule] = {
    1: Rule(
        "SEND_OK after what flush and acks promise; one-way may be lost, a sync send never",
        (
            f"{_WAITING}::test_send_ok_and_a_parked_pull_wait_for_the_flush",
            f"{_WAITING}::test_a_message_that_was_send_ok_survives_a_power_cut",
            "tests/crash/test_remoting_kills.py::"
            "test_acknowledged_messages_and_offsets_survive_kills",
            f"{_BROKER}/test_remoting_sends.py::test_a_one_way_send_is_stored_and_not_answered",
            f"{_BROKER}/test_remoting_sends.py::"
            "test_a_send_that_cannot_be_stored_is_refused_and_stores_nothing",
        ),
    ),
    2: Rule(
        "no pull beyond the last stable offset; the watermark wakes; sends do not wait",
        (
            f"{_BROKER}/test_remoting_sends.py::"
            "test_undecided_and_aborted_transactions_are_not_pulled",
            f"{_WAITING}::test_send_ok_and_a_parked_pull_wait_for_the_flush",
            f"{_BROKER}/test_remoting_pulls.py::"
            "test_a_parked_pull_is_answered_by_a_send_and_holds_none_back",
        ),
    ),
    3: Rule(
        "offsets as said, backwards too, -1 deletes; never older after kill -9; kept",
        (
            f"{_BROKER}/test_remoting_offsets.py::"
            "test_an_offset_is_stored_as_said_and_minus_one_removes_it",
            f"{_UNIT}/test_group_offsets.py::test_an_offset_may_go_backwards",
            f"{_OFFSETS}::test_no_offset_is_older_after_a_power_cut_than_the_last_one_answered",
            f"{_OFFSETS}::test_offsets_of_a_deleted_topic_are_not_those_of_the_next_one",
            f"{_UNIT}/test_offsets_kept.py::test_an_offset_outlives_kafkas_expiry_and_a_restart",
            f"{_BROKER}/test_remoting_admin_groups.py::"
            "test_a_deleted_group_keeps_its_offsets_unless_asked",
            _KILLS,
            _LIVES,
        ),
    ),
    4: Rule(
        "a reset is told once, wakes parked pulls, is not undone; the second of two wins",
        (
            f"{_BROKER}/test_remoting_resets.py::test_a_reset_is_answered_to_the_next_pull_once",
            f"{_BROKER}/test_remoting_resets.py::"
            "test_a_parked_pull_is_woken_by_a_reset_of_its_group",
            f"{_BROKER}/test_remoting_resets.py::"
            "test_a_pull_does_not_commit_over_the_reset_that_it_is_answered_with",
            f"{_OFFSETS}::test_a_commit_that_races_a_reset_does_not_undo_it",
            f"{_OFFSETS}::test_of_resets_in_a_row_each_later_one_wins_and_is_told_once",
            f"{_UNIT}/test_group_offsets.py::"
            "test_a_commit_in_flight_does_not_undo_the_reset_behind_it",
            _LIVES,
        ),
    ),
    5: Rule(
        "a group off: pulls and parked ones are refused; on again: nothing lost or twice",
        (
            f"{_BROKER}/test_remoting_group_settings.py::"
            "test_a_group_that_is_switched_off_does_not_pull",
            f"{_BROKER}/test_remoting_group_settings.py::"
            "test_a_parked_pull_is_answered_when_its_group_is_switched_off",
            f"{_OFFSETS}::test_a_group_switched_off_and_on_consumes_each_message_once",
        ),
    ),
    6: Rule(
        "queues added to a topic of groups begin at 0, also with messages before the route",
        (
            f"{_OFFSETS}::test_a_group_misses_nothing_of_queues_added_while_messages_come",
            f"{_BROKER}/test_remoting_offsets.py::"
            "test_a_queue_added_later_is_read_from_its_first_offset_by_new_queue",
            f"{_BROKER}/test_remoting_queue_numbers.py::"
            "test_a_group_misses_nothing_of_a_queue_that_is_shown_again",
        ),
    ),
    7: Rule(
        "one list of members for all, told at once; a lock has one owner and ends with it",
        (
            f"{_MEMBERS}::test_members_share_queues_alike_and_no_queue_has_two_owners",
            f"{_MEMBERS}::test_a_lock_ends_with_its_owner_or_60_seconds_after_its_renewal",
            f"{_MEMBERS}::test_all_members_are_told_of_each_change_at_once",
            f"{_UNIT}/test_members.py::test_members_are_listed_in_one_order_for_all",
        ),
    ),
    8: Rule(
        "a message sent back: stored before the answer, never lost; two lost answers are two",
        (
            f"{_WAITING}::test_a_message_sent_back_survives_a_power_cut_once_it_is_answered",
            f"{_WAITING}::test_two_answers_that_are_lost_make_two_dead_letters_with_one_key",
            f"{_BROKER}/test_remoting_retries.py::"
            "test_a_negative_level_or_the_limit_makes_a_dead_letter_at_once",
            _KILLS,
            _LIVES,
        ),
    ),
    9: Rule(
        "a dead letter keeps its properties byte by byte, and is consumable at once",
        (
            f"{_WAITING}::"
            "test_a_dead_letter_keeps_its_properties_byte_by_byte_through_all_attempts",
            f"{_BROKER}/test_remoting_retries.py::"
            "test_the_second_attempt_keeps_topic_and_id_of_the_first",
        ),
    ),
    10: Rule(
        "delays: none early, in order; recall before, not after; a kill doubles, never loses",
        (
            f"{_WAITING}::test_delays_follow_jumps_of_the_clock",
            f"{_WAITING}::test_delays_come_in_the_order_of_time_and_ties_in_that_of_arrival",
            f"{_WAITING}::test_a_recall_that_races_the_delivery_removes_the_message_or_is_refused",
            f"{_BROKER}/test_remoting_delays.py::"
            "test_a_recalled_message_is_not_delivered_and_its_neighbours_are",
            f"{_HELD}/test_delays.py::"
            "test_a_kill_between_delivery_and_settling_delivers_twice_at_most",
            "tests/property/subscriptions/test_held_lives.py::"
            "test_delayed_messages_are_delivered_and_none_is_early",
            _KILLS,
            _LIVES,
        ),
    ),
    11: Rule(
        "undecided messages: unseen at each door; asked about, by any producer, 15 times",
        (
            f"{_BROKER}/test_remoting_closed_topics.py::"
            "test_kafka_consumers_do_not_read_held_messages",
            f"{_BROKER}/test_remoting_closed_topics.py::"
            "test_kafka_producers_do_not_write_held_messages",
            "tests/unit/broker/test_internal_appends.py::"
            "test_a_closed_topic_is_read_and_written_by_its_broker_alone",
            f"{_BROKER}/test_remoting_closed_topics.py::"
            "test_exchanges_and_streams_of_amqp_are_not_bound_to_held_messages",
            f"{_BROKER}/test_remoting_closed_topics.py::"
            "test_tools_and_rocketmq_clients_do_not_read_held_messages",
            "tests/spark/test_spark_remoting.py::test_spark_does_not_read_messages_that_wait",
            f"{_DECIDED}::test_a_lost_decision_is_asked_for_and_each_live_producer_in_turn",
            f"{_DECIDED}::test_a_message_is_given_up_after_15_checks_counted_and_logged",
            f"{_BROKER}/test_remoting_signatures.py::"
            "test_a_producer_without_the_right_to_the_topic_is_not_asked",
        ),
    ),
    12: Rule(
        "no producer: the question waits; two commits are one; no commit after a rollback",
        (
            f"{_DECIDED}::test_a_producer_that_is_away_for_long_is_asked_when_it_is_back",
            f"{_DECIDED}::test_a_message_without_a_producer_is_given_up_after_the_reserved_hours",
            f"{_DECIDED}::test_an_answered_decision_holds_after_a_power_cut",
            f"{_DECIDED}::test_decisions_at_once_and_with_a_question_decide_a_message_once",
            f"{_BROKER}/test_remoting_transactions.py::"
            "test_a_message_committed_twice_is_stored_once",
            f"{_BROKER}/test_remoting_transactions.py::test_a_rolled_back_message_is_never_seen",
            _KILLS,
            _LIVES,
        ),
    ),
    17: Rule(
        "filters: no equal hash is lost, what is skipped is passed; SQL's UNKNOWN, bounds",
        (
            f"{_UNIT}/test_new_groups.py::test_tags_with_equal_hashes_are_told_apart",
            f"{_BROKER}/test_remoting_pulls.py::"
            "test_tags_filter_and_what_is_passed_over_is_not_read_again",
            f"{_BROKER}/test_remoting_limits.py::"
            "test_a_pull_whose_filter_wants_nothing_is_sent_back_after_some_reads",
            f"{_UNIT}/test_sql_filters.py::test_a_missing_property_makes_a_comparison_unknown",
            f"{_UNIT}/test_sql_filters.py::test_depth_and_length_are_bounded",
            f"{_BROKER}/test_remoting_sql_filters.py::"
            "test_a_filter_ends_its_read_after_some_steps_and_loses_nothing",
        ),
    ),
    18: Rule(
        "members that subscribe differently: both keep their offsets, a warning names both",
        (
            f"{_MEMBERS}::test_members_that_subscribe_differently_are_named_and_keep_their_offsets",
            f"{_MEMBERS}::test_members_that_subscribe_alike_cause_no_warning",
            f"{_BROKER}/test_remoting_sql_filters.py::"
            "test_a_change_between_tags_and_sql_never_delivers_unfiltered",
        ),
    ),
    19: Rule(
        "retention deletes what a group has not read: it goes on at the first offset",
        (f"{_OFFSETS}::test_a_group_whose_messages_expired_goes_on_at_the_first_offset",),
    ),
    20: Rule(
        "reserved names are not produced to without their right, and not deleted unasked",
        (
            f"{_BROKER}/test_remoting_own_topics.py::"
            "test_kafka_producers_need_the_right_to_the_reserved_prefix",
            f"{_BROKER}/test_remoting_own_topics.py::"
            "test_a_deleted_group_keeps_its_topics_until_they_are_deleted",
        ),
    ),
    21: Rule(
        "a disk at 90 %: sends are refused, pulls and what was promised go on",
        (
            f"{_BROKER}/test_remoting_full_disk.py::"
            "test_above_the_watermark_sends_are_refused_and_all_else_goes_on",
            f"{_SIM}/test_disk_watermark.py::"
            "test_sends_are_refused_above_the_watermark_and_accepted_at_it",
        ),
    ),
    22: Rule(
        "kills under all of it: pulls, Kafka's consumers and Spark show one sum",
        (
            _KILLS,
            "tests/spark/test_spark_remoting.py::"
            "test_pulls_kafka_consumers_and_spark_read_the_same_messages",
        ),
    ),
}
