"""The broker's configuration: made of a properties file, the environment and flags.

`load` is the only way in. A `BrokerConfig` has each key as an attribute with dots as underscores,
typed; where a coarser key may stand in (`log.retention.hours`), the attribute holds the outcome.
"""

from collections.abc import Mapping
from enum import Enum

from headrace.config.cross_key_rules import combine, doubtful, problem_line
from headrace.config.definitions import (
    BROKER,
    COARSER,
    known_but_unused,
    nearest_broker_key,
)
from headrace.config.listeners import Listener
from headrace.config.properties import parse
from headrace.config.value_types import Value
from headrace.model.errors import ConfigError

VARIABLE_PREFIX = "HEADRACE_"
_OTHER_VARIABLES = frozenset({"HEADRACE_BOOTSTRAP", "HEADRACE_JAVA", "HEADRACE_NUMBA"})
"""Variables with our prefix that are no broker's key."""


class Source(Enum):
    """Where a value comes from, the weakest first."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class BrokerConfig:
    """All settings of one broker, checked. Treat as immutable; `updated` makes another."""

    advertised_listeners: tuple[Listener, ...]
    """One for each of `listeners`, in their order."""
    auto_create_topics_enable: bool
    broker_id: int
    broker_rack: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    connection_answer_bytes_max: int
    connection_first_request_ms: int
    connection_request_receive_ms: int
    connection_requests_max: int
    connection_slow_reader_ms: int
    connections_max_idle_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignor_offload_enable: bool
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_settling_heartbeat_interval_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_assignor_offload_enable: bool
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    groups_max: int
    insecure_listeners: bool
    listeners: tuple[Listener, ...]
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleanup_policy: tuple[str, ...]
    log_dirs: tuple[str, ...]
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_on_ack: bool
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_flush_strategy: str
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_level: str
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_type: str
    log_open_files_max: int
    log_preallocate: bool
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_retention_ms: int
    log_roll_jitter_ms: int
    log_roll_ms: int
    log_scrub_bytes_per_second: int
    log_scrub_interval_ms: int
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    metrics_address: tuple[str, int] | None
    """Host and port of `metrics.listener`, None where there shall be none."""
    min_insync_replicas: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    partitions_max: int
    partitions_per_topic_max: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    producers_per_partition_max: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    record_batch_inflated_bytes_max: int
    replica_high_watermark_checkpoint_interval_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    telemetry_max_bytes: int
    telemetry_series_max: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    transactional_ids_max: int
    unclean_leader_election_enable: bool

    def __init__(self, values: Mapping[str, Value], sources: Mapping[str, Source]) -> None:
        """From checked values by key; ConfigError where they do not go together."""
        self.values = dict(values)
        """Every key's value as it was given or is by default, None where unset."""
        self.sources = dict(sources)
        for name, value in self.values.items():
            setattr(self, attribute(name), value)
        combined = combine(self.values)
        for name, outcome in combined.attributes.items():
            setattr(self, name, outcome)
        if combined.problems:
            raise ConfigError("\n".join(combined.problems))

    def effective(self, name: str) -> Value:
        """The value of key `name` after coarser keys stood in, as DescribeConfigs shows it."""
        value = self.values[name]
        if value is None and name in COARSER and name != "log.dirs":
            return getattr(self, attribute(name))  # type: ignore[no-any-return]
        return value

    def updated(self, changes: Mapping[str, Value]) -> "BrokerConfig":
        """Another configuration, some values changed, as after a dynamic alteration."""
        return BrokerConfig({**self.values, **changes}, self.sources)


def attribute(name: str) -> str:
    """A key's attribute: `log.segment.bytes` → `log_segment_bytes`."""
    return name.replace(".", "_")


def variable(name: str) -> str:
    """A key's environment variable: `log.dirs` → `HEADRACE_LOG_DIRS`."""
    return VARIABLE_PREFIX + name.replace(".", "_").upper()


def load(
    properties: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> tuple[BrokerConfig, list[str]]:
    """The configuration of a properties text, variables and flags; the later wins.

    Returns it with warnings, a line each. ConfigError names all wrong values, a line each.
    """
    given: dict[str, tuple[str, Source]] = {}
    warnings: list[str] = []
    given.update((name, (text, Source.FILE)) for name, text in parse(properties).items())
    given.update(_from_environment(environ or {}, warnings))
    given.update((name, (text, Source.FLAG)) for name, text in (flags or {}).items())
    values: dict[str, Value] = {name: one.default for name, one in BROKER.items()}
    sources = dict.fromkeys(BROKER, Source.DEFAULT)
    problems: list[str] = []
    for name, (text, source) in given.items():
        if name in BROKER:
            try:
                values[name] = BROKER[name].parse(text)
                sources[name] = source
            except ValueError as error:
                problems.append(problem_line(name, text, str(error)))
        elif known_but_unused(name):
            warnings.append(
                f"{name}: a key of Kafka's that Headrace does not use; it has no effect"
            )
        else:
            problems.append(_unknown(name, text))
    if problems:
        try:
            BrokerConfig(values, sources)
        except ConfigError as error:
            problems.append(str(error))
        raise ConfigError("\n".join(problems))
    config = BrokerConfig(values, sources)
    return config, warnings + doubtful(values)


def _from_environment(
    environ: Mapping[str, str], warnings: list[str]
) -> dict[str, tuple[str, Source]]:
    names = {variable(name): name for name in BROKER}
    found: dict[str, tuple[str, Source]] = {}
    for name, text in environ.items():
        if name in names:
            found[names[name]] = (text, Source.ENVIRONMENT)
        elif name.startswith(VARIABLE_PREFIX) and name not in _OTHER_VARIABLES:
            # Not refused: Kubernetes puts HEADRACE_PORT and more into the environment of
            # everything that runs beside a service named headrace.
            warnings.append(f"{name}: the environment has it, but it is no key's variable")
    return found


def _unknown(name: str, text: str) -> str:
    near = nearest_broker_key(name)
    return problem_line(name, text, "no such key" + (f"; did you mean {near}?" if near else ""))
