"""The tables of served Kafka APIs; others are neither advertised nor answered.

Each API has a file named as its key is. Its code is imported with its first request
(`handler.load_handler`): a broker loads only what its clients use. `make docs` writes
docs/protocol.md from these tables.
"""

from headrace.frontends.kafka.connection.api import Api
from headrace.wire.kafka.api import ApiKey

APIS: tuple[Api, ...] = (
    Api(ApiKey.PRODUCE, "produce", 3, 13, hot=True, proof=
        "tests/broker/server/test_requests.py"
        "::test_every_produce_version_appends_and_tells_the_offset"),
    Api(ApiKey.FETCH, "fetch", 4, 18, hot=True, proof=
        "tests/broker/server/test_requests.py"
        "::test_every_fetch_version_gives_the_bytes_that_were_written"),
    Api(ApiKey.LIST_OFFSETS, "fetch", 1, 11, hot=True, in_turn=True, proof=
        "tests/broker/server/test_requests.py"
        "::test_list_offsets_knows_the_ends_times_and_the_newest"),
    Api(ApiKey.METADATA, "metadata", 0, 13, hot=True, proof=
        "tests/broker/server/test_requests.py"
        "::test_every_metadata_version_names_the_broker_and_the_topic"),
    Api(ApiKey.OFFSET_COMMIT, "groups", 2, 10, hot=True, proof=
        "tests/unit/frontends/kafka/connection/test_group_offsets_apis.py"
        "::test_offset_commit_in_every_version"),
    Api(ApiKey.OFFSET_FETCH, "groups", 1, 10, proof=
        "tests/unit/frontends/kafka/connection/test_group_offsets_apis.py"
        "::test_offset_fetch_in_every_version"),
    Api(ApiKey.FIND_COORDINATOR, "groups", 0, 6, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_find_coordinator_in_every_version"),
    Api(ApiKey.JOIN_GROUP, "groups", 0, 9, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.HEARTBEAT, "groups", 0, 4, hot=True, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_heartbeat_in_every_version"),
    Api(ApiKey.LEAVE_GROUP, "groups", 0, 5, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.SYNC_GROUP, "groups", 0, 5, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.DESCRIBE_GROUPS, "groups", 0, 6, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_describe_groups_in_every_version"),
    Api(ApiKey.LIST_GROUPS, "groups", 0, 5, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_list_groups_in_every_version"),
    Api(ApiKey.SASL_HANDSHAKE, "security", 0, 1, proof=
        "tests/broker/frontends/kafka/test_authentication.py"
        "::test_the_right_password_lets_in"),
    Api(ApiKey.API_VERSIONS, "connection", 0, 4, hot=True, proof=
        "tests/security/test_hostile_frames.py"
        "::test_api_versions_of_the_future_is_answered_in_version_0"),
    Api(ApiKey.CREATE_TOPICS, "admin", 2, 7, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_create_topics_answers_each_topic_for_itself"),
    Api(ApiKey.DELETE_TOPICS, "admin", 1, 6, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_delete_topics_by_name_and_by_id"),
    Api(ApiKey.DELETE_RECORDS, "admin", 0, 2, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_deleted_records_do_not_come_back_after_a_kill"),
    Api(ApiKey.INIT_PRODUCER_ID, "transactions", 0, 6, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_every_producer_is_given_an_id_of_its_own_at_epoch_0"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "fetch", 2, 4, proof=
        "tests/unit/frontends/kafka/fetch/test_offset_for_leader_epoch.py"
        "::test_an_epochs_end_is_told_in_every_version"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions", 0, 5, proof=
        "tests/unit/frontends/kafka/test_transaction_apis.py"
        "::test_a_transaction_commits_in_every_version"),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "transactions", 0, 4, proof=
        "tests/unit/frontends/kafka/test_transaction_apis.py"
        "::test_offsets_count_if_their_transaction_commits"),
    Api(ApiKey.END_TXN, "transactions", 0, 5, proof=
        "tests/unit/frontends/kafka/test_transaction_apis.py"
        "::test_a_transaction_commits_in_every_version"),
    Api(ApiKey.WRITE_TXN_MARKERS, "transactions", 1, 2, proof=
        "tests/unit/frontends/kafka/test_transaction_life.py"
        "::test_a_hanging_transaction_is_found_and_ended"),
    Api(ApiKey.TXN_OFFSET_COMMIT, "transactions", 0, 5, proof=
        "tests/unit/frontends/kafka/test_transaction_apis.py"
        "::test_offsets_count_if_their_transaction_commits"),
    Api(ApiKey.DESCRIBE_ACLS, "security", 1, 3, proof=
        "tests/unit/frontends/kafka/security/test_acl_apis.py"
        "::test_acls_are_created_described_and_deleted"),
    Api(ApiKey.CREATE_ACLS, "security", 1, 3, proof=
        "tests/unit/frontends/kafka/security/test_acl_apis.py"
        "::test_acls_are_created_described_and_deleted"),
    Api(ApiKey.DELETE_ACLS, "security", 1, 3, proof=
        "tests/unit/frontends/kafka/security/test_acl_apis.py"
        "::test_acls_are_created_described_and_deleted"),
    Api(ApiKey.DESCRIBE_CONFIGS, "admin", 1, 4, proof=
        "tests/unit/frontends/kafka/admin/test_admin_settings.py"
        "::test_describe_configs_says_where_values_come_from"),
    Api(ApiKey.ALTER_CONFIGS, "admin", 0, 2, proof=
        "tests/unit/frontends/kafka/admin/test_admin_settings.py"
        "::test_alter_configs_replaces_all"),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "admin", 1, 2, proof=
        "tests/unit/frontends/kafka/admin/test_alter_replica_log_dirs.py"
        "::test_a_replica_moves_to_another_directory_with_all_its_records"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "admin", 1, 5, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_describe_log_dirs_shows_sizes_and_names_failed_directories"),
    Api(ApiKey.SASL_AUTHENTICATE, "security", 0, 2, proof=
        "tests/broker/frontends/kafka/test_authentication.py"
        "::test_the_right_password_lets_in"),
    Api(ApiKey.CREATE_PARTITIONS, "admin", 0, 3, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_create_partitions_grows_and_refuses"),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "security", 1, 3, proof=
        "tests/broker/frontends/kafka/test_delegation_tokens.py"
        "::test_a_token_is_made_described_renewed_and_ended"),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "security", 1, 2, proof=
        "tests/broker/frontends/kafka/test_delegation_tokens.py"
        "::test_a_token_is_made_described_renewed_and_ended"),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "security", 1, 2, proof=
        "tests/broker/frontends/kafka/test_delegation_tokens.py"
        "::test_a_token_is_made_described_renewed_and_ended"),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "security", 1, 3, proof=
        "tests/broker/frontends/kafka/test_delegation_tokens.py"
        "::test_a_token_is_made_described_renewed_and_ended"),
    Api(ApiKey.DELETE_GROUPS, "groups", 0, 2, proof=
        "tests/unit/frontends/kafka/groups/test_groups_apis.py"
        "::test_delete_groups_in_every_version"),
    Api(ApiKey.ELECT_LEADERS, "admin", 0, 2, proof=
        "tests/unit/frontends/kafka/admin/test_replica_apis.py"
        "::test_partitions_of_one_topic_are_answered_together_in_the_order_asked"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "admin", 0, 1, proof=
        "tests/unit/frontends/kafka/admin/test_admin_settings.py"
        "::test_incremental_alter_configs_changes_single_keys"),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "admin", 0, 1, proof=
        "tests/cluster/test_reassignment.py"
        "::test_partitions_move_wholly_to_other_brokers_under_load_and_leave_nothing_behind"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "admin", 0, 0, proof=
        "tests/cluster/test_reassignment.py"
        "::test_partitions_move_wholly_to_other_brokers_under_load_and_leave_nothing_behind"),
    Api(ApiKey.OFFSET_DELETE, "groups", 0, 0, proof=
        "tests/unit/frontends/kafka/connection/test_group_offsets_apis.py"
        "::test_offset_delete_answers_for_each_partition_and_for_the_group"),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "admin", 0, 1, proof=
        "tests/broker/frontends/kafka/test_client_quotas.py"
        "::test_quotas_are_set_described_and_kept"),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "admin", 0, 1, proof=
        "tests/broker/frontends/kafka/test_client_quotas.py"
        "::test_quotas_are_set_described_and_kept"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "security", 0, 0, proof=
        "tests/unit/frontends/kafka/security/test_scram_credentials.py"
        "::test_credentials_are_set_described_deleted_and_kept"),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "security", 0, 0, proof=
        "tests/unit/frontends/kafka/security/test_scram_credentials.py"
        "::test_credentials_are_set_described_deleted_and_kept"),
    Api(ApiKey.DESCRIBE_CLUSTER, "metadata", 0, 2, proof=
        "tests/unit/frontends/kafka/admin/test_admin_apis.py"
        "::test_describe_cluster_shows_the_asking_listeners_addresses"),
    Api(ApiKey.DESCRIBE_PRODUCERS, "transactions", 0, 0, proof=
        "tests/unit/frontends/kafka/test_transaction_life.py"
        "::test_a_hanging_transaction_is_found_and_ended"),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "transactions", 0, 0, proof=
        "tests/unit/frontends/kafka/test_transaction_life.py"
        "::test_transactions_are_described_and_listed"),
    Api(ApiKey.LIST_TRANSACTIONS, "transactions", 0, 2, proof=
        "tests/unit/frontends/kafka/test_transaction_life.py"
        "::test_transactions_are_described_and_listed"),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry", 0, 0, proof=
        "tests/broker/frontends/kafka/test_client_telemetry.py"
        "::test_a_client_is_asked_for_what_matches_it"),
    Api(ApiKey.PUSH_TELEMETRY, "telemetry", 0, 0, proof=
        "tests/broker/frontends/kafka/test_client_telemetry.py"
        "::test_what_is_pushed_becomes_series"),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "admin", 0, 1, proof=
        "tests/unit/frontends/kafka/admin/test_admin_entities.py"
        "::test_what_has_settings_is_listed_by_kind"),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "metadata", 0, 0, proof=
        "tests/unit/frontends/kafka/test_describe_topic_partitions.py"
        "::test_describe_topic_partitions_pages_through_everything_once"),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "groups", 0, 1, proof=
        "tests/unit/frontends/kafka/connection/test_consumer_group_apis.py"
        "::test_a_member_joins_stays_and_leaves_in_every_version"),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "groups", 0, 1, proof=
        "tests/unit/frontends/kafka/connection/test_consumer_group_apis.py"
        "::test_describe_in_every_version"),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, "share", 1, 1, proof=
        "tests/broker/frontends/kafka/test_share_admin.py"
        "::test_members_join_stay_and_leave"),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, "share", 1, 1, proof=
        "tests/broker/frontends/kafka/test_share_admin.py"
        "::test_groups_are_described_listed_and_deleted"),
    Api(ApiKey.SHARE_FETCH, "share", 1, 2, hot=True, proof=
        "tests/broker/frontends/kafka/test_share_apis.py"
        "::test_records_are_handed_out_and_accepted_ones_never_again"),
    Api(ApiKey.SHARE_ACKNOWLEDGE, "share", 1, 2, hot=True, proof=
        "tests/broker/frontends/kafka/test_share_apis.py"
        "::test_released_records_come_again_before_new_ones_and_counted"),
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "share", 0, 1, proof=
        "tests/broker/frontends/kafka/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "share", 0, 0, proof=
        "tests/broker/frontends/kafka/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "share", 0, 0, proof=
        "tests/broker/frontends/kafka/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
)  # fmt: skip

OPERATION_APIS: tuple[Api, ...] = (
    Api(ApiKey.ADMINISTRATION, "admin", 0, 0, hot=True, in_turn=True, module="administration",
        proof="tests/broker/frontends/test_made_up_protocol.py"
        "::test_an_operation_of_the_protocol_is_called_and_audited"),
)  # fmt: skip
"""Headrace's own API: served and advertised where a listener's protocol has operations."""

PEER_APIS: tuple[Api, ...] = (
    Api(ApiKey.LEADER_AND_ISR, "cluster", 5, 7, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_a_broker_leads_and_follows_what_its_controller_says"),
    Api(ApiKey.STOP_REPLICA, "cluster", 3, 4, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_what_a_broker_is_to_hold_no_longer_is_gone"),
    Api(ApiKey.UPDATE_METADATA, "cluster", 7, 8, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_clients_are_shown_what_the_controller_tells"),
    Api(ApiKey.CONTROLLED_SHUTDOWN, "cluster", 0, 3, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_a_broker_that_stops_is_told_what_it_leads_still"),
    Api(ApiKey.ALTER_PARTITION, "cluster", 2, 3, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_a_leader_is_told_each_partitions_state_or_why_it_stays"),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_brokers_are_given_producer_ids_block_by_block"),
    Api(ApiKey.DECLARE, "cluster", 0, 1, hot=True, proof=
        "tests/unit/server/test_cluster_declarations.py"
        "::test_declarations_on_either_broker_are_on_both"),
    Api(ApiKey.FOLLOW_DECLARATIONS, "cluster", 0, 0, hot=True, proof=
        "tests/unit/server/test_cluster_declarations.py"
        "::test_declarations_on_either_broker_are_on_both"),
    Api(ApiKey.COPY_SETTLED, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_copy_settled.py"
        "::test_follower_writes_the_frames_of_its_leader"),
    Api(ApiKey.LEASE_PING, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/frontends/kafka/connection/test_peer_apis.py"
        "::test_broker_names_the_leader_epochs_that_a_ping_does_not_know"),
    Api(ApiKey.QUEUE_CALLS, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/server/test_queue_links.py"
        "::test_queue_of_another_broker_is_published_to_and_consumed"),
    Api(ApiKey.QUEUE_EVENTS, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/server/test_queue_links.py"
        "::test_queue_of_another_broker_is_published_to_and_consumed"),
    Api(ApiKey.CHANGE_QUEUE_TOPICS, "cluster", 0, 0, hot=True, proof=
        "tests/unit/vhosts/test_replicated_topics.py"
        "::test_topic_is_created_by_the_controller_for_any_broker"),
    Api(ApiKey.NOTE_ALARM, "cluster", 0, 0, hot=True, in_turn=True, proof=
        "tests/unit/vhosts/test_shared_alarms.py"
        "::test_alarm_of_a_broker_blocks_publishers_on_all"),
    Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "share", 0, 0, hot=True, proof=
        "tests/unit/frontends/kafka/authentication/test_share_state_apis.py"
        "::test_state_begins_once_in_an_epoch_and_is_deleted"),
    Api(ApiKey.READ_SHARE_GROUP_STATE, "share", 0, 0, hot=True, proof=
        "tests/unit/frontends/kafka/authentication/test_share_state_apis.py"
        "::test_who_leads_reads_what_was_written_and_leaders_before_are_refused"),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, "share", 0, 1, hot=True, proof=
        "tests/unit/frontends/kafka/authentication/test_share_state_apis.py"
        "::test_who_leads_reads_what_was_written_and_leaders_before_are_refused"),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, "share", 0, 0, hot=True, proof=
        "tests/unit/frontends/kafka/authentication/test_share_state_apis.py"
        "::test_state_begins_once_in_an_epoch_and_is_deleted"),
    Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "share", 0, 1, hot=True, proof=
        "tests/unit/frontends/kafka/authentication/test_share_state_apis.py"
        "::test_how_far_a_group_is_is_told_in_every_version"),
)  # fmt: skip
"""Requests between brokers of a cluster, advertised on the listeners for brokers only.

Those in `cluster` are decoded by tables (`wire.kafka.peer_messages`).
"""
