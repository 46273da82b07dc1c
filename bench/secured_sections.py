"""The sections of what security costs, with the bounds they are held to."""

from bench import secured
from bench.report import Goal
from bench.sections import Section, count

RULES = 10_000


def secured_sections(scale: float) -> list[Section]:
    """Return them in the order in which they run; `scale` shrinks what is large."""
    rules = max(int(RULES * scale), 2)
    seconds = max(12 * scale, 2.0)
    return [
        Section(
            f"one 100 B record a request, acks=1: open, by 1 rule, by {count(rules)}",
            secured.authorizer(rules, seconds),
            seconds_max=420,
            ceilings={
                "1 rule: % of open": Goal(least=95),
                f"{rules:,} rules: % of open": Goal(least=90),
            },
        ),
        *[
            Section(
                f"librdkafka by TLS, {count(size)} B, acks=1",
                secured.moved(size, max(4 * scale, 1.0)),
                seconds_max=300,
                goals={
                    "produce records/s": Goal(least=1),
                    "produce CPU-s/GB": Goal(most=0.7),
                    "consume records/s": Goal(least=1),
                    "consume CPU-s/GB": Goal(most=0.7),
                },
            )
            for size in (1000, 10_000)
        ],
        Section(
            f"{secured.RATE:,} msg/s beside {secured.HANDSHAKES} TLS handshakes a second (P-256)",
            secured.crowd(max(8 * scale, 3.0)),
            seconds_max=240,
            ceilings={"p99 beside them / alone": Goal(most=2)},
        ),
    ]
