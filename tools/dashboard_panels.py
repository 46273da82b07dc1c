"""The panels of the sample dashboard, and the queries that they have in common."""

from typing import NamedTuple


class Panel(NamedTuple):
    """One graph, or one number where `stat`."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """Expressions with `$` for the chosen instances, and what each line is called."""
    help: str = ""
    stat: bool = False
    width: int = 8


def rate(name: str, by: str) -> str:
    return f"sum by ({by}) (rate({name}$[$__rate_interval]))"


def quantile(share: float, name: str, by: str) -> str:
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({name}_bucket$[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


def by_broker(metric: str, name: str) -> tuple[str, str]:
    return rate(metric, "instance"), name + " {{instance}}"


def stat(title: str, query: str, text: str) -> Panel:
    return Panel(title, "short", ((query, ""),), text, stat=True, width=4)


def one(title: str, unit: str, query: str, line: str, text: str = "") -> Panel:
    return Panel(title, unit, ((query, line),), text)


def by_queue(title: str, metric: str) -> Panel:
    text = "The first metrics.queues.max queues, no exclusive ones."
    query = f"sum by (vhost, queue) ({metric}$)"
    return one(title, "short", query, "{{queue}} in {{vhost}}", text)


def rate_by_queue(title: str, metric: str) -> Panel:
    return one(title, "cps", rate(metric, "vhost, queue"), "{{queue}} in {{vhost}}")


ROCKETMQ = (
    "RocketMQ",
    (
        one(
            "RocketMQ requests by code",
            "reqps",
            rate("headrace_rocketmq_requests_total", "request"),
            "{{request}}",
        ),
        one(
            "Errors answered to RocketMQ clients",
            "cps",
            rate("headrace_rocketmq_errors_total", "request, response"),
            "{{request}} {{response}}",
        ),
        Panel(
            "Delayed and undecided messages",
            "short",
            (
                ("headrace_rocketmq_delayed_messages$", "delayed {{instance}}"),
                ("headrace_rocketmq_undecided_messages$", "undecided {{instance}}"),
            ),
            "Undecided: of transactions without a commit or a rollback.",
        ),
        Panel(
            "Discarded and given up",
            "cps",
            (
                by_broker("headrace_rocketmq_discarded_messages_total", "topic deleted"),
                by_broker("headrace_rocketmq_given_up_messages_total", "given up"),
            ),
            "Delayed messages whose topic was deleted; messages of transactions that were never"
            " decided.",
        ),
        Panel(
            "Stored late",
            "cps",
            ((rate("headrace_rocketmq_stored_late_total", "status"), "{{status}}"),),
            "Messages that are stored, but not flushed or replicated in time.",
        ),
        Panel(
            "Pulled, and unexpired bytes deleted",
            "cps",
            (
                by_broker("headrace_rocketmq_messages_pulled_total", "messages pulled"),
                by_broker("headrace_rocketmq_unexpired_deleted_bytes_total", "bytes deleted"),
            ),
            "Bytes: rocketmq.clean.file.forcibly.enable, above its part of the disk.",
        ),
    ),
)
"""The row of clients of RocketMQ's."""
