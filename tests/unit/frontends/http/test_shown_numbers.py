"""What a broker's numbers look like in Prometheus' text, sample by sample."""

import math
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace import __version__
from headrace.broker.quotas import QuotaKey
from headrace.coordination.share.acknowledgements import AckKind
from headrace.frontends.http import coordinator_gauges, gauges
from headrace.frontends.http.exposition import render, rendered
from headrace.frontends.http.surveys import SLICE_PARTITIONS
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicPartition,
)
from headrace.observe.metrics import LABELS_MAX, Metrics
from headrace.shards.shard import ShardState
from headrace.testing.clock import SimClock
from headrace.wire.kafka.api import ApiKey


def shown(metrics: Metrics) -> dict[str, float]:
    """Samples by name and the values of their labels."""
    return {
        " ".join((sample.name.removeprefix("headrace_"), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(render(metrics).decode())
        for sample in family.samples
    }


def test_what_was_asked_is_shown_by_api_and_what_nobody_asked_is_not() -> None:
    metrics = Metrics()
    metrics.api(ApiKey.FETCH).answered(2.0, 100, 1000)
    metrics.api(ApiKey.FETCH).answered(4.0, 11, 22)
    metrics.api(ApiKey.FETCH).failed(ErrorCode.OFFSET_OUT_OF_RANGE)
    metrics.api(ApiKey.FETCH).failed(ErrorCode.OFFSET_OUT_OF_RANGE)
    metrics.api(ApiKey.FETCH).failed(9999)
    metrics.api(1 << 14).answered(0.5, 3, 4)
    found = shown(metrics)
    assert found["requests_total fetch"] == 2
    assert found["request_bytes_total fetch"] == 111
    assert found["response_bytes_total fetch"] == 1022
    assert found["errors_total fetch offset_out_of_range"] == 2
    assert found["errors_total fetch 9999"] == 1
    assert found["request_seconds_count fetch"] == 2
    assert found["request_seconds_sum fetch"] == 6.0
    assert found["requests_total other"] == 1
    assert found["request_bytes_total other"] == 3
    assert not [name for name in found if "produce" in name]
    assert found["request_seconds_bucket fetch 2.5"] == 1
    assert found["request_seconds_bucket fetch 5"] == 2
    assert found["request_seconds_bucket fetch +Inf"] == 2


def test_counts_of_the_whole_broker_are_shown_each_by_its_name() -> None:
    metrics = Metrics()
    metrics.records_in, metrics.malformed = 3, 7
    metrics.flushed(0.5, 2)
    metrics.flushed(0.25, 3, failed=True)
    metrics.loop_lag.add(1.0)
    found = shown(metrics)
    assert found["records_in_total"] == 3
    assert found["connections_malformed_total"] == 7
    assert found["flush_files_total"] == 5
    assert found["flush_errors_total"] == 1
    assert (found["flush_seconds_count"], found["flush_seconds_sum"]) == (2, 0.75)
    assert (found["loop_lag_seconds_count"], found["loop_lag_seconds_sum"]) == (1, 1.0)
    assert found["flush_seconds_bucket +Inf"] == 2


def test_a_gauge_of_many_labels_shows_the_first_by_name_and_no_more() -> None:
    metrics = Metrics()
    many = {f"t{number:05}": float(number) for number in reversed(range(LABELS_MAX + 3))}
    metrics.gauge("headrace_many", "Many", lambda: many, label="topic")
    metrics.gauge("headrace_nameless", "No label's name", lambda: {"a": 2.0})
    metrics.gauge("headrace_three", "Three", lambda: {("a", "b", "c"): 5.0}, label=("x", "y", "z"))
    metrics.gauge("headrace_grows_total", "Grows", lambda: 4, counter=True)
    text = render(metrics).decode()
    found = shown(metrics)
    labels = [name for name in found if name.startswith("many ")]
    assert labels == [f"many t{number:05}" for number in range(LABELS_MAX)]
    assert 'headrace_nameless{name="a"} 2.0' in text
    assert 'headrace_three{x="a",y="b",z="c"} 5.0' in text
    assert "# TYPE headrace_grows_total counter" in text
    assert found["grows_total"] == 4


# --- what is looked up in a broker ----------------------------------------------------------------


def directory(fenced: bool, **sizes: int) -> Any:
    logs = {
        TopicPartition(name[0], int(name[2:])): SimpleNamespace(
            segments=[SimpleNamespace(size=size)]
        )
        for name, size in sizes.items()
    }
    return SimpleNamespace(
        fenced=fenced,
        context=SimpleNamespace(damaged=2, low=""),
        scrub=SimpleNamespace(scrubbed=100),
        quarantined=["q"],
        logs=logs,
    )


def broker_with(*topics: str, **config: int) -> Any:
    metrics = Metrics()
    return SimpleNamespace(
        metrics=metrics,
        broker_id=7,
        cluster_id="ours",
        config=SimpleNamespace(**{"metrics_topics_max": 9, "metrics_group_lags_max": 9} | config),
        clock=SimClock(),
        partitions=[1, 2, 3],
        followed={},
        held=[metrics.traffic(topic) for topic in topics],
        image=SimpleNamespace(topics=dict.fromkeys(topics)),
        directories=[directory(False, t_0=1, t_1=10, u_0=100), directory(True, u_1=1000)],
        telemetry=SimpleNamespace(series=dict, dropped=6),
        quotas=SimpleNamespace(throttled=dict.fromkeys(QuotaKey, 0) | {QuotaKey.FETCH: 8}),
    )


def coordinators(list_groups: Any = list, **offsets: dict[str, dict[int, int]]) -> Any:
    """Groups with what they have committed, by topic and partition."""
    by_group = {
        group: {
            topic: {index: SimpleNamespace(offset=offset) for index, offset in partitions.items()}
            for topic, partitions in by_topic.items()
        }
        for group, by_topic in offsets.items()
    }
    context = SimpleNamespace(offsets=SimpleNamespace(by_group=by_group))
    shard = SimpleNamespace(state=ShardState.ACTIVE, context=context)
    loading = SimpleNamespace(state=ShardState.LOADING)
    return SimpleNamespace(groups=SimpleNamespace(list_groups=list_groups, led=[loading, shard]))


def test_a_brokers_gauges_are_looked_up_when_asked_for() -> None:
    broker = broker_with("t", "u", OFFSETS_TOPIC)
    gauges.register(broker, coordinators(lambda: ["a", "b"]))
    found = shown(broker.metrics)
    assert found[f"build_info {'.'.join(map(str, sys.version_info[:3]))} {__version__}"] == 1
    assert found["broker_info 7 ours"] == 1
    assert found["partitions"] == 3
    assert found["topics"] == 3
    assert found["groups"] == 2
    assert (found["log_bytes t"], found["log_bytes u"]) == (11, 100), "a failed one tells nothing"
    assert found["logs_bytes"] == 111
    assert found["log_directories_failed"] == 1
    assert found["log_damaged_batches_total"] == 4
    assert found["log_scrubbed_bytes_total"] == 200
    assert found["partitions_quarantined"] == 1, "a failed directory is not damaged"
    assert found["client_metrics_dropped_total"] == 6
    assert found[f"throttled_total {QuotaKey.FETCH.value}"] == 8
    broker.partitions.append(4)
    assert shown(broker.metrics)["partitions"] == 4


def test_connections_are_told_by_listener_and_none_is_a_number_too() -> None:
    table: Any = SimpleNamespace(
        listeners=lambda: ["A", "B", "A"], accepted=9, refused=4, dropped=3, blocked=2
    )
    metrics = Metrics()
    gauges.register_connections(metrics, table, ["A", "B", "C"])
    found = shown(metrics)
    by_listener = [found[f"connections {name}"] for name in "ABC"]
    assert by_listener == [2, 1, 0]
    counts = [found[f"connections_{what}_total"] for what in ("accepted", "refused", "dropped")]
    assert (counts, found["connections_blocked_total"]) == ([9, 4, 3], 2)


def test_of_topics_the_first_that_were_opened_are_told_and_of_the_others_how_many() -> None:
    broker = broker_with("u", "t", "a", metrics_topics_max=2)
    for traffic in broker.held:
        traffic.records_in, traffic.bytes_in, traffic.bytes_out = 1, 20, 300
        traffic.replica_bytes_out = 4000
    gauges.register(broker, coordinators())
    found = shown(broker.metrics)
    told = {name: value for name, value in found.items() if name.startswith("topic_")}
    assert told == {
        f"topic_{what}_total {topic}": value
        for topic in ("t", "u")
        for what, value in (
            ("records_in", 1), ("bytes_in", 20), ("bytes_out", 300), ("replication_bytes_out", 4000)
        )
    }  # fmt: skip
    assert found["topics_unlisted"] == 1
    assert "log_bytes a" not in found
    del traffic
    broker.held.pop(0)  # the last partition of a topic is gone, and another takes its place
    found = shown(broker.metrics)
    assert found["topic_records_in_total a"] == 1
    assert "topic_records_in_total u" not in found
    assert found["topics_unlisted"] == 0


def test_a_groups_lag_is_what_it_has_not_committed_of_what_may_be_read() -> None:
    broker = broker_with(OFFSETS_TOPIC)
    broker.partitions = {("t", 0): SimpleNamespace(high_watermark=100)}
    broker.followed = {("t", 1): SimpleNamespace(high_watermark=50)}
    offsets = {"t": {0: 60, 1: 51, 2: 7}, "u": {0: 3}}
    gauges.register(broker, coordinators(g=offsets, h={"t": {1: 20}}))
    found = shown(broker.metrics)
    assert found["group_lag_records g t"] == 40, "none below 0, none for who is not known here"
    assert found["group_lag_records g u"] == 0
    assert found["group_lag_records h t"] == 30
    assert found["group_partitions_unknown"] == 2
    assert found["group_lags_unlisted"] == 0
    assert "group_lag_records g t" not in shown(broker_with().metrics)


def test_lags_beyond_the_limit_are_counted_and_not_told() -> None:
    broker = broker_with(OFFSETS_TOPIC, metrics_group_lags_max=3)
    broker.partitions = {}
    groups = {f"g{number}": {"t": {0: 1}, "u": {0: 1}} for number in range(4)}
    gauges.register(broker, coordinators(**groups))
    found = shown(broker.metrics)
    assert sum(name.startswith("group_lag_records") for name in found) == 3
    assert found["group_lags_unlisted"] == 5
    assert found["group_partitions_unknown"] == 3


def test_all_partitions_are_gone_through_in_slices() -> None:
    broker = broker_with(OFFSETS_TOPIC)
    broker.partitions = {}
    many = range(5 * SLICE_PARTITIONS)
    broker.directories = [directory(False, **{f"t_{index}": 2 for index in many})]
    gauges.register(broker, coordinators(g={"t": dict.fromkeys(many, 1)}))
    turns = sum(piece == b"" for piece in rendered(broker.metrics))
    assert turns == 2 * 5, "one survey of the logs, one of what is committed"
    assert shown(broker.metrics)["logs_bytes"] == 2 * len(many)


def test_groups_that_are_being_read_are_not_a_number_and_without_their_topic_there_are_none() -> (
    None
):
    def loading() -> None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    groups = coordinators(loading)
    broker = broker_with(OFFSETS_TOPIC)
    gauges.register(broker, groups)
    assert math.isnan(shown(broker.metrics)["groups"])
    broker = broker_with()
    gauges.register(broker, groups)
    assert shown(broker.metrics)["groups"] == 0


def test_a_cleaners_counts_are_shown_each_by_its_name() -> None:
    names = ("bytes_read", "bytes_written", "records_read", "records_kept", "keyless")
    counts = SimpleNamespace(**{name: at for at, name in enumerate(names, 1)})
    cleaner: Any = SimpleNamespace(
        counts=counts, compactions=6, seconds=7.5, uncleanable=["a", "b"]
    )
    metrics = Metrics()
    gauges.register_cleaner(metrics, cleaner)
    found = {name.removeprefix("cleaner_"): value for name, value in shown(metrics).items()}
    assert found["compactions_total"] == 6
    assert found["seconds_total"] == 7.5
    assert found["read_bytes_total"] == 1
    assert found["written_bytes_total"] == 2
    assert found["records_read_total"] == 3
    assert found["records_kept_total"] == 4
    assert found["keyless_total"] == 5
    assert found["uncleanable_partitions"] == 2


@pytest.mark.parametrize(
    ("fenced", "healthy"), [([False, True], True), ([True, True], False), ([False], True)]
)
def test_a_broker_is_healthy_while_a_directory_takes_records(
    fenced: list[bool], healthy: bool
) -> None:
    broker: Any = SimpleNamespace(directories=[SimpleNamespace(fenced=one) for one in fenced])
    assert gauges.healthy(broker) is healthy


def test_transactions_are_shown_with_how_long_the_oldest_is_open() -> None:
    broker = broker_with(TRANSACTIONS_TOPIC)
    now = broker.clock.wall_ms()
    since = [now - 1500, now - 4500]
    transactions: Any = SimpleNamespace(
        open_since_ms=lambda: since,
        led=[SimpleNamespace(ending=[1, 2]), SimpleNamespace(ending=[3])],
        counts=SimpleNamespace(committed=4, aborted=5, timed_out=6),
    )
    coordinator_gauges.register(broker, SimpleNamespace(transactions=transactions))  # type: ignore[arg-type]
    found = shown(broker.metrics)
    assert found["transactions_open"] == 2
    assert found["transaction_open_seconds_max"] == 4.5
    assert found["transactions_ending"] == 3
    assert found["transactions_total committed"] == 4
    assert found["transactions_total aborted"] == 5
    assert found["transactions_timed_out_total"] == 6
    since[:] = [now + 1500]
    assert shown(broker.metrics)["transaction_open_seconds_max"] == 0, "the clock was put back"
    since.clear()
    assert shown(broker.metrics)["transaction_open_seconds_max"] == 0


def test_without_their_topics_nobody_is_asked_for_transactions_and_share_groups() -> None:
    broker = broker_with()
    nobody: Any = None
    coordinator_gauges.register(broker, nobody)
    found = shown(broker.metrics)
    assert found["transactions_open"] == found["share_groups"] == 0
    assert not [name for name in found if name.startswith("share_records_acknowledged_total")]


def test_share_groups_that_are_being_read_are_not_a_number() -> None:
    def loading() -> None:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    counts = SimpleNamespace(acquired=3, settled=Counter({AckKind.REJECT: 4}), timed_out=5)
    partitions = [SimpleNamespace(out=2), SimpleNamespace(out=7)]
    held: Any = SimpleNamespace(counts=counts)
    broker = broker_with(SHARE_STATE_TOPIC)
    share: Any = SimpleNamespace(list_groups=loading, partitions=Partitions(partitions, held))
    coordinator_gauges.register(broker, SimpleNamespace(share=share))  # type: ignore[arg-type]
    found = shown(broker.metrics)
    assert math.isnan(found["share_groups"])
    assert found["share_partitions"] == 2
    assert found["share_records_out"] == 9
    assert found["share_records_acquired_total"] == 3
    assert found["share_records_acknowledged_total reject"] == 4
    assert found["share_locks_timed_out_total"] == 5


class Partitions(list[Any]):
    """Share partitions and what was counted of them."""

    def __init__(self, partitions: list[Any], held: Any) -> None:
        super().__init__(partitions)
        self.counts = held.counts
