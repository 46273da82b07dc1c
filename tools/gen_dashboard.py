"""Write the sample dashboard of Grafana from the rows below, or show that it is up to date.

python tools/gen_dashboard.py            # write it
python tools/gen_dashboard.py --check    # exit 1 where it differs
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).resolve().parent.parent / "src" / "headrace" / "config" / "samples"
TARGET = SAMPLES / "headrace-dashboard.json"

_COLUMNS = 24
_HEIGHT = 7
_OURS = '{instance=~"$instance"}'
_CHOSEN = re.compile(r"\$(?!__)")


class Panel(NamedTuple):
    """One graph, or one number where `stat`."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """Expressions with `$` for the chosen instances, and what each line is called."""
    help: str = ""
    stat: bool = False
    width: int = 8


def _rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}$[$__rate_interval]))"


def _quantile(share: float, name: str, by: str) -> str:
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({name}_bucket$[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


def _by_broker(metric: str, name: str) -> tuple[str, str]:
    return _rate(metric, "instance"), name + " {{instance}}"


def _stat(title: str, query: str, text: str) -> Panel:
    return Panel(title, "short", ((query, ""),), text, stat=True, width=4)


def _one(title: str, unit: str, query: str, line: str, text: str = "") -> Panel:
    return Panel(title, unit, ((query, line),), text)


def _by_queue(title: str, metric: str) -> Panel:
    text = "The first metrics.queues.max queues, no exclusive ones."
    query = f"sum by (vhost, queue) ({metric}$)"
    return _one(title, "short", query, "{{queue}} in {{vhost}}", text)


def _rate_by_queue(title: str, metric: str) -> Panel:
    return _one(title, "cps", _rate(metric, "vhost, queue"), "{{queue}} in {{vhost}}")


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Is it well",
        (
            _stat("Brokers", "count(headrace_build_info$)", "That answer the scrape."),
            _stat("Controllers", "sum(headrace_controller_active$)", "1 in a cluster; none alone."),
            _stat(
                "Offline partitions", "max(headrace_partitions_offline$)",
                "Neither written nor read: start the brokers that have them.",
            ),
            _stat(
                "Under min ISR", "sum(headrace_partitions_under_min_isr$)",
                "acks=all is refused.",
            ),
            _stat(
                "Under-replicated", "sum(headrace_partitions_under_replicated$)",
                "For minutes: a broker is away, slow or throttled.",
            ),
            _stat(
                "Failed directories", "sum(headrace_log_directories_failed$)",
                "Mend the disk, then restart the broker.",
            ),
        ),
    ),
    (
        "Traffic",
        (
            _one(
                "Records in by topic", "cps", _rate("headrace_topic_records_in_total", "topic"),
                "{{topic}}", "The first metrics.topics.max topics that were opened.",
            ),
            _one(
                "Bytes in by topic", "Bps", _rate("headrace_topic_bytes_in_total", "topic"),
                "{{topic}}",
            ),
            Panel(
                "Bytes out by topic",
                "Bps",
                (
                    (_rate("headrace_topic_bytes_out_total", "topic"), "{{topic}}"),
                    (
                        "sum(rate(headrace_topic_replication_bytes_out_total$[$__rate_interval]))",
                        "to followers",
                    ),
                ),
                "To consumers by topic, to followers in all.",
            ),
            _one(
                "Lag by group and topic", "short",
                "max by (group, topic) (headrace_group_lag_records$)", "{{group}} on {{topic}}",
                "Records between what was committed and the high watermark, where the group's"
                " coordinator has a replica.",
            ),
            _one(
                "Bytes on disk by topic", "bytes", "sum by (topic) (headrace_log_bytes$)",
                "{{topic}}",
            ),
            Panel(
                "Share groups",
                "cps",
                (
                    _by_broker("headrace_share_records_acquired_total", "out"),
                    _by_broker("headrace_share_locks_timed_out_total", "timed out"),
                ),
            ),
        ),
    ),
    (
        "Queues (AMQP)",
        (
            _by_queue("Ready messages by queue", "headrace_queue_messages_ready"),
            _by_queue("Unacknowledged messages by queue", "headrace_queue_messages_unacked"),
            _by_queue("Consumers by queue", "headrace_queue_consumers"),
            _rate_by_queue(
                "Messages published by queue", "headrace_queue_messages_published_total"
            ),
            _rate_by_queue(
                "Messages delivered by queue", "headrace_queue_messages_delivered_total"
            ),
            Panel(
                "Redelivered, discarded, publishers stopped",
                "short",
                (
                    _by_broker("headrace_queue_messages_redelivered_total", "redelivered"),
                    _by_broker("headrace_queue_messages_discarded_total", "discarded"),
                    ("headrace_amqp_publishers_blocked$", "publishers stopped {{instance}}"),
                ),
                "Messages a second; 1 while memory or disk is low.",
            ),
        ),
    ),
    (
        "Requests",
        (
            _one("Requests by API", "reqps", _rate("headrace_requests_total", "api"), "{{api}}"),
            _one(
                "99 % of requests take less than", "s",
                _quantile(0.99, "headrace_request_seconds", "api"), "{{api}}",
                "By API, waits that the client asked for included: fetch waits for records, join"
                " for the others of its group.",
            ),
            _one(
                "Errors answered", "cps", _rate("headrace_errors_total", "api, error"),
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
                    _by_broker(f"headrace_connections_{what}_total", what)
                    for what in ("accepted", "refused", "dropped", "malformed", "blocked")
                ),
            ),
            _one(
                "Clients told to wait for their quota", "cps",
                _rate("headrace_throttled_total", "quota"), "{{quota}}",
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
                    (_quantile(0.5, "headrace_flush_seconds", "instance"), "half {{instance}}"),
                    (_quantile(0.99, "headrace_flush_seconds", "instance"), "99 % {{instance}}"),
                ),
                "Each acks=all waits for one.",
            ),
            Panel(
                "Flushes and what fails",
                "cps",
                (
                    _by_broker("headrace_flush_seconds_count", "flushes"),
                    _by_broker("headrace_flush_errors_total", "failed"),
                ),
            ),
            Panel(
                "Compaction",
                "Bps",
                (
                    _by_broker("headrace_cleaner_read_bytes_total", "read"),
                    _by_broker("headrace_cleaner_written_bytes_total", "left"),
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
            _one(
                "Followers' lag", "short", "headrace_followers_lag_max_messages$",
                "{{instance}}", "Of the follower that lags most, as its leader sees it.",
            ),
            Panel(
                "ISR changes",
                "cps",
                (
                    _by_broker("headrace_isr_shrinks_total", "shrinks"),
                    _by_broker("headrace_isr_expands_total", "expands"),
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
            _one(
                "The event loop is late by", "s",
                _quantile(0.99, "headrace_loop_lag_seconds", "instance"), "99 % {{instance}}",
            ),
            _one(
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
