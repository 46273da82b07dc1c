"""Conditions that an answer satisfies before it is recorded, and values for later requests.

RabbitMQ samples its statistics every few seconds: a request is repeated until its condition holds.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

Condition = Callable[[Any], bool]
STATISTICS = ("messages", "state", "consumers", "memory", "effective_policy_definition")
"""Fields of a queue that come with its first sample."""


def _is_sampled(queue: Any) -> bool:
    return all(name in queue for name in STATISTICS)


def _has_policy(name: str, field: str = "policy") -> Condition:
    return lambda queue: bool(queue.get(field) == name)


def _counts(number: int) -> Condition:
    return lambda queue: bool(queue["messages"] == number)


def _has(number: int) -> Condition:
    return lambda rows: len(rows) == number


def _live_connections(rows: Any) -> list[Any]:
    return [
        row for row in rows
        if (row.get("client_properties") or {}).get("connection_name") == "gold-conn-1"
    ]  # fmt: skip


def _is_busy(channels: Any) -> bool:
    return (
        len(channels) == 2
        and any(row.get("messages_unacknowledged") == 2 for row in channels)
        and any("publish" in (row.get("message_stats") or {}) for row in channels)
    )


def _is_consumed(queue: Any) -> bool:
    return (
        queue["messages_unacknowledged"] == 2
        and queue["consumers"] == 1
        and bool(queue["consumer_details"])
        and "deliver" in queue["message_stats"]
    )


WAITS: Mapping[str, Condition] = {
    "nodes": lambda rows: all("uptime" in row for row in rows),
    "q.get.classic": _is_sampled,
    "q.get.quorum": lambda it: _is_sampled(it) and "leader" in it and bool(it.get("online")),
    "q.get.stream": lambda it: _is_sampled(it) and bool(it.get("online")),
    "qs": lambda rows: all("messages" in row and "consumers" in row for row in rows),
    "q.after.publish": lambda it: bool(it["messages"] >= 4),
    "q.after.purge": _counts(0),
    "q.rates": lambda it: bool(it["message_stats"]["get"] == 14),
    "x.rates": lambda it: "publish_in" in it["message_stats"],
    "pol.after": _has_policy("p1"),
    "pol.after.higher": _has_policy("p2"),
    "op.after.a": _has_policy("o1", "operator_policy"),
    "op.after.b": _has_policy("o1", "operator_policy"),
    "pol.quorum.after": _has_policy("pq"),
    "pol.stream.after": _has_policy("ps"),
    "pol.after.delete": _has_policy("p1"),
    "pol.now.after": _counts(3),
    "conns": lambda rows: _live_connections(rows)[0].get("channels") == 2,
    "conn.channels": _has(2),
    "conns.user": _has(1),
    "conns.user.before": _has(1),
    "chans": _is_busy,
    "chan": lambda it: bool(it["consumer_details"]) and it.get("messages_unacknowledged") == 2,
    "consumers": _has(1),
    "live.queue": _is_consumed,
    "live.overview": lambda it: (
        it["object_totals"]["connections"] == it["object_totals"]["consumers"] == 1
    ),
    "conns.empty": _has(0),
    "defs.before": lambda rows: not any(row["name"].startswith("amq.gen") for row in rows),
    "defs.post.changed.q": lambda it: it["effective_policy_definition"].get("max-length") in (1, 6),
}
"""By step. A condition that raises KeyError, TypeError and the like does not hold."""
CAPTURES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "start": ("node", lambda it: str(it["node"])),
    "conns": ("conn", lambda rows: str(_live_connections(rows)[0]["name"])),
    "chans": ("chan", lambda rows: str(next(it["name"] for it in rows if it["number"] == 1))),
    "defs": ("defs", json.dumps),
}
"""By step: the name of a value, and where it is in the answer."""


def holds(condition: Condition | None, answer: Any) -> bool:
    """Whether an answer satisfies its condition."""
    if condition is None:
        return True
    try:
        return condition(answer)
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
