"""Write the sample dashboard of Grafana from the rows below, or show that it is up to date.

python tools/gen_dashboard.py            # write it
python tools/gen_dashboard.py --check    # exit 1 where it differs
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.dashboard_panels import (
    ROCKETMQ,
    Panel,
    by_broker,
    by_queue,
    one,
    quantile,
    rate,
    rate_by_queue,
    stat,
)

SAMPLES = Path(__file__).resolve().parent.parent / "src" / "headrace" / "config" / "samples"
TARGET = SAMPLES / "headrace-dashboard.json"

_COLUMNS = 24
_HEIGHT = 7
_OURS = '{instance=~"$instance"}'
_CHOSEN = re.compile(r"\$(?!__)")


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Is it well",
        (
            stat("Brokers", "count(headrace_build_info$)", "That answer the scrape."),
            stat("Controllers", "sum(headrace_controller_active$)", "1 in a cluster; none alone."),
            stat(
                "Offline partitions", "max(headrace_partitions_offline$)",
                "Neither written nor read: start the brokers that have them.",
            ),
            stat(
                "Under min ISR", "sum(headrace_partitions_under_min_isr$)",
                "acks=all is refused.",
            ),
            stat(
                "Under-replicated", "sum(headrace_partitions_under_replicated$)",
                "For minutes: a broker is away, slow or throttled.",
            ),
            stat(
                "Failed directories", "sum(headrace_log_directories_failed$)",
                "Mend the disk, then restart the broker.",
            ),
        ),
    ),
    (
        "Traffic",
        (
            one(
                "Records in by topic", "cps", rate("headrace_topic_records_in_total", "topic"),
                "{{topic}}", "The first metrics.topics.max topics that were opened.",
            ),
            one(
                "Bytes in by topic", "Bps", rate("headrace_topic_bytes_in_total", "topic"),
                "{{topic}}",
            ),
            Panel(
                "Bytes out by topic",
                "Bps",
                (
                    (rate("headrace_topic_bytes_out_total", "topic"), "{{topic}}"),
                    (
                        "sum(rate(headrace_topic_replication_bytes_out_total$[$__rate_interval]))",
                        "to followers",
                    ),
                ),
                "To consumers by topic, to followers in all.",
            ),
            one(
                "Lag by group and topic", "short",
                "max by (group, topic) (headrace_group_lag_records$)", "{{group}} on {{topic}}",
                "Records between what was committed and the high watermark, where the group's"
                " coordinator has a replica.",
            ),
            one(
                "Bytes on disk by topic", "bytes", "sum by (topic) (headrace_log_bytes$)",
                "{{topic}}",
            ),
            Panel(
                "Share groups",
                "cps",
                (
                    by_broker("headrace_share_records_acquired_total", "out"),
                    by_broker("headrace_share_locks_timed_out_total", "timed out"),
                ),
            ),
        ),
    ),
    (
        "Queues (AMQP)",
        (
            by_queue("Ready messages by queue", "headrace_queue_messages_ready"),
            by_queue("Unacknowledged messages by queue", "headrace_queue_messages_unacked"),
            by_queue("Consumers by queue", "headrace_queue_consumers"),
            rate_by_queue(
                "Messages published by queue", "headrace_queue_messages_published_total"
            ),
            rate_by_queue(
                "Messages delivered by queue", "headrace_queue_messages_delivered_total"
            ),
            Panel(
                "Redelivered, discarded, publishers stopped",
                "short",
                (
                    by_broker("headrace_queue_messages_redelivered_total", "redelivered"),
                    by_broker("headrace_queue_messages_discarded_total", "discarded"),
                    ("headrace_amqp_publishers_blocked$", "publishers stopped {{instance}}"),
                ),
                "Messages a second; 1 while memory or disk is low.",
            ),
        ),
    ),
    ROCKETMQ,
    (
        "Requests",
        (
            one("Requests by API", "reqps", rate("headrace_requests_total", "api"), "{{api}}"),
            one(
                "99 % of requests take less than", "s",
                quantile(0.99, "headrace_request_seconds", "api"), "{{api}}",
                "By API, waits that the client asked for included: fetch waits for records, join"
                " for the others of its group.",
            ),
            one(
                "Errors answered", "cps", rate("headrace_errors_total", "api, error"),
                "{{api}} {{error}}",
            ),
            Panel(
                "Connections by listener",
                "short",
                (
                    (
                        "sum by (instance, listener) (headrace_connections$)",
                        "{{listener}} {{instance}}",
                    ),
                ),
            ),
            Panel(
                "Connections that came, were refused, stood still",
                "cps",
                tuple(
                    by_broker(f"headrace_connections_{what}_total", what)
                    for what in ("accepted", "refused", "dropped", "malformed", "blocked")
                ),
            ),
            one(
                "Clients told to wait for their quota", "cps",
                rate("headrace_throttled_total", "quota"), "{{quota}}",
            ),
        ),
    ),
    (
        "Disk",
        (
            Panel(
                "Flushes take",
                "s",
                (
                    (quantile(0.5, "headrace_flush_seconds", "instance"), "half {{instance}}"),
                    (quantile(0.99, "headrace_flush_seconds", "instance"), "99 % {{instance}}"),
                ),
                "Each acks=all waits for one.",
            ),
            Panel(
                "Flushes and what fails",
                "cps",
                (
                    by_broker("headrace_flush_seconds_count", "flushes"),
                    by_broker("headrace_flush_errors_total", "failed"),
                ),
            ),
            Panel(
                "Compaction",
                "Bps",
                (
                    by_broker("headrace_cleaner_read_bytes_total", "read"),
                    by_broker("headrace_cleaner_written_bytes_total", "left"),
                ),
            ),
            Panel(
                "Damage",
                "short",
                (
                    (
                        "sum by (instance) (headrace_log_damaged_batches_total$)",
                        "batches {{instance}}",
                    ),
                    (
                        "sum by (instance) (headrace_partitions_quarantined$)",
                        "partitions {{instance}}",
                    ),
                    (
                        "sum by (instance) (headrace_cleaner_uncleanable_partitions$)",
                        "not compacted {{instance}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Replication and the cluster",
        (
            one(
                "Followers' lag", "short", "headrace_followers_lag_max_messages$",
                "{{instance}}", "Of the follower that lags most, as its leader sees it.",
            ),
            Panel(
                "ISR changes",
                "cps",
                (
                    by_broker("headrace_isr_shrinks_total", "shrinks"),
                    by_broker("headrace_isr_expands_total", "expands"),
                ),
            ),
            Panel(
                "Partitions by broker",
                "short",
                (
                    ("headrace_partitions$", "led {{instance}}"),
                    ("headrace_partitions_followed$", "followed {{instance}}"),
                ),
            ),
            Panel(
                "The store is unheard for",
                "s",
                (
                    ("headrace_store_unheard_seconds$", "{{instance}}"),
                    ("min(headrace_store_session_seconds$)", "a session ends"),
                ),
            ),
        ),
    ),
    (
        "Process",
        (
            one(
                "The event loop is late by", "s",
                quantile(0.99, "headrace_loop_lag_seconds", "instance"), "99 % {{instance}}",
            ),
            one(
                "CPU", "percentunit", "rate(process_cpu_seconds_total$[$__rate_interval])",
                "{{instance}}",
            ),
            Panel(
                "Memory",
                "bytes",
                (("process_resident_memory_bytes$", "{{instance}}"),),
                width=4,
            ),
            Panel(
                "Open files",
                "percentunit",
                (("process_open_fds$ / process_max_fds$", "{{instance}}"),),
                width=4,
            ),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it (schema 39: Grafana 10.3 and later)."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, members in ROWS:
        panels.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "id": len(panels) + 1,
                "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1},
            }
        )
        y += 1
        x = 0
        for panel in members:
            if x + panel.width > _COLUMNS:
                x, y = 0, y + _HEIGHT
            height = 4 if panel.stat else _HEIGHT
            place = {"x": x, "y": y, "w": panel.width, "h": height}
            panels.append(_panel(panel, place, len(panels) + 1))
            x += panel.width
        y += 4 if members[-1].stat else _HEIGHT
    return {
        "title": "Headrace",
        "uid": "headrace",
        "tags": ["headrace", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source_variable(), _instance_variable()]},
        "panels": panels,
    }


def _panel(panel: Panel, place: dict[str, int], number: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    found: dict[str, Any] = {
        "type": "stat" if panel.stat else "timeseries",
        "id": number,
        "title": panel.title,
        "description": panel.help,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": source,
                "expr": _CHOSEN.sub(_OURS, query),
                "legendFormat": name or "__auto",
            }
            for at, (query, name) in enumerate(panel.queries)
        ],
    }
    if panel.stat:
        found["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    return found


def _source_variable() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _instance_variable() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Broker",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": "label_values(headrace_build_info, instance)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def main() -> int:
    """Write the file, or compare it with `--check`; returns the exit code."""
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
        return 0
    if TARGET.exists() and TARGET.read_text() == text:
        return 0
    print(f"{TARGET} is not up to date: run tools/gen_dashboard.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
