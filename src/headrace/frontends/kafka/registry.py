"""Every Kafka API that is served. What is not in this table is not advertised and not answered.

One file an API, named as its key is. Its code is imported with the first request that asks for it
(`Api.load`): a broker holds what its clients use. `make docs` writes docs/protocol.md from the
table.
"""

from headrace.frontends.kafka.handler import Api
from headrace.wire.kafka.api import ApiKey

APIS: tuple[Api, ...] = (
    Api(ApiKey.PRODUCE, 3, 13, hot=True, proof=
        "tests/unit/test_server_requests.py"
        "::test_every_produce_version_appends_and_tells_the_offset"),
    Api(ApiKey.FETCH, 4, 18, hot=True, proof=
        "tests/unit/test_server_requests.py"
        "::test_every_fetch_version_gives_the_bytes_that_were_written"),
    Api(ApiKey.LIST_OFFSETS, 1, 11, hot=True, in_turn=True, proof=
        "tests/unit/test_server_requests.py"
        "::test_list_offsets_knows_the_ends_times_and_the_newest"),
    Api(ApiKey.METADATA, 0, 13, hot=True, proof=
        "tests/unit/test_server_requests.py"
        "::test_every_metadata_version_names_the_broker_and_the_topic"),
    Api(ApiKey.OFFSET_COMMIT, 2, 10, hot=True, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_offset_commit_in_every_version"),
    Api(ApiKey.OFFSET_FETCH, 1, 10, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_offset_fetch_in_every_version"),
    Api(ApiKey.FIND_COORDINATOR, 0, 6, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_find_coordinator_in_every_version"),
    Api(ApiKey.JOIN_GROUP, 0, 9, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.HEARTBEAT, 0, 4, hot=True, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_heartbeat_in_every_version"),
    Api(ApiKey.LEAVE_GROUP, 0, 5, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.SYNC_GROUP, 0, 5, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_join_sync_and_leave_in_every_version"),
    Api(ApiKey.DESCRIBE_GROUPS, 0, 6, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_describe_groups_in_every_version"),
    Api(ApiKey.LIST_GROUPS, 0, 5, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_list_groups_in_every_version"),
    Api(ApiKey.SASL_HANDSHAKE, 0, 1, proof=
        "tests/unit/test_admin_security.py"
        "::test_no_listener_authenticates"),
    Api(ApiKey.API_VERSIONS, 0, 4, hot=True, proof=
        "tests/security/test_hostile_frames.py"
        "::test_api_versions_of_the_future_is_answered_in_version_0"),
    Api(ApiKey.CREATE_TOPICS, 2, 7, proof=
        "tests/unit/test_admin_apis.py"
        "::test_create_topics_answers_each_topic_for_itself"),
    Api(ApiKey.DELETE_TOPICS, 1, 6, proof=
        "tests/unit/test_admin_apis.py"
        "::test_delete_topics_by_name_and_by_id"),
    Api(ApiKey.DELETE_RECORDS, 0, 2, proof=
        "tests/unit/test_admin_apis.py"
        "::test_deleted_records_do_not_come_back_after_a_kill"),
    Api(ApiKey.INIT_PRODUCER_ID, 0, 5, proof=
        "tests/unit/test_admin_apis.py"
        "::test_every_producer_is_given_an_id_of_its_own_at_epoch_0"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, proof=
        "tests/unit/test_offset_for_leader_epoch.py"
        "::test_an_epochs_end_is_told_in_every_version"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_a_transaction_commits_in_every_version"),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_offsets_count_if_their_transaction_commits"),
    Api(ApiKey.END_TXN, 0, 5, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_a_transaction_commits_in_every_version"),
    Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_a_hanging_transaction_is_found_and_ended"),
    Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_offsets_count_if_their_transaction_commits"),
    Api(ApiKey.DESCRIBE_ACLS, 1, 3, proof=
        "tests/unit/test_admin_security.py"
        "::test_acls_are_refused_as_without_an_authorizer"),
    Api(ApiKey.CREATE_ACLS, 1, 3, proof=
        "tests/unit/test_admin_security.py"
        "::test_acls_are_refused_as_without_an_authorizer"),
    Api(ApiKey.DELETE_ACLS, 1, 3, proof=
        "tests/unit/test_admin_security.py"
        "::test_acls_are_refused_as_without_an_authorizer"),
    Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, proof=
        "tests/unit/test_admin_settings.py"
        "::test_describe_configs_says_where_values_come_from"),
    Api(ApiKey.ALTER_CONFIGS, 0, 2, proof=
        "tests/unit/test_admin_settings.py"
        "::test_alter_configs_replaces_all"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, proof=
        "tests/unit/test_admin_apis.py"
        "::test_describe_log_dirs_shows_sizes_and_names_failed_directories"),
    Api(ApiKey.SASL_AUTHENTICATE, 0, 2, proof=
        "tests/unit/test_admin_security.py"
        "::test_no_listener_authenticates"),
    Api(ApiKey.CREATE_PARTITIONS, 0, 3, proof=
        "tests/unit/test_admin_apis.py"
        "::test_create_partitions_grows_and_refuses"),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_is_given_a_delegation_token"),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_is_given_a_delegation_token"),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_is_given_a_delegation_token"),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_is_given_a_delegation_token"),
    Api(ApiKey.DELETE_GROUPS, 0, 2, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_delete_groups_in_every_version"),
    Api(ApiKey.ELECT_LEADERS, 0, 2, proof=
        "tests/unit/test_admin_entities.py"
        "::test_one_broker_needs_no_election"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, proof=
        "tests/unit/test_admin_settings.py"
        "::test_incremental_alter_configs_changes_single_keys"),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, proof=
        "tests/unit/test_admin_security.py"
        "::test_replicas_stay_where_they_are"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, proof=
        "tests/unit/test_admin_security.py"
        "::test_replicas_stay_where_they_are"),
    Api(ApiKey.OFFSET_DELETE, 0, 0, proof=
        "tests/unit/test_groups_frontend.py"
        "::test_offset_delete_answers_for_each_partition_and_for_the_group"),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, proof=
        "tests/unit/test_client_quotas.py"
        "::test_quotas_are_set_described_and_kept"),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, proof=
        "tests/unit/test_client_quotas.py"
        "::test_quotas_are_set_described_and_kept"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_has_scram_credentials"),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, proof=
        "tests/unit/test_admin_security.py"
        "::test_nobody_has_scram_credentials"),
    Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, proof=
        "tests/unit/test_admin_apis.py"
        "::test_describe_cluster_shows_the_asking_listeners_addresses"),
    Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_a_hanging_transaction_is_found_and_ended"),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_transactions_are_described_and_listed"),
    Api(ApiKey.LIST_TRANSACTIONS, 0, 2, proof=
        "tests/unit/test_txn_frontend.py"
        "::test_transactions_are_described_and_listed"),
    Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, proof=
        "tests/unit/test_client_telemetry.py"
        "::test_a_client_is_asked_for_what_matches_it"),
    Api(ApiKey.PUSH_TELEMETRY, 0, 0, proof=
        "tests/unit/test_client_telemetry.py"
        "::test_what_is_pushed_becomes_series"),
    Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, proof=
        "tests/unit/test_admin_entities.py"
        "::test_what_has_settings_is_listed_by_kind"),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, proof=
        "tests/unit/test_admin_apis.py"
        "::test_describe_topic_partitions_pages_through_everything_once"),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, proof=
        "tests/unit/test_consumer_group_apis.py"
        "::test_a_member_joins_stays_and_leaves_in_every_version"),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, proof=
        "tests/unit/test_consumer_group_apis.py"
        "::test_describe_in_every_version"),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, proof=
        "tests/unit/test_share_admin.py"
        "::test_members_join_stay_and_leave"),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, proof=
        "tests/unit/test_share_admin.py"
        "::test_groups_are_described_listed_and_deleted"),
    Api(ApiKey.SHARE_FETCH, 1, 2, hot=True, proof=
        "tests/unit/test_share_server.py"
        "::test_records_are_handed_out_and_accepted_ones_never_again"),
    Api(ApiKey.SHARE_ACKNOWLEDGE, 1, 2, hot=True, proof=
        "tests/unit/test_share_server.py"
        "::test_released_records_come_again_before_new_ones_and_counted"),
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, 1, proof=
        "tests/unit/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, 0, proof=
        "tests/unit/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, 0, proof=
        "tests/unit/test_share_admin.py"
        "::test_offsets_are_described_altered_and_deleted"),
)  # fmt: skip
