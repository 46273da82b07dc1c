"""What two runs of a tool differ in by nature: ids, times, rates."""

import json
import re
from collections.abc import Callable

MASKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
        (r"\b((?:console|perf)-consumer)-\d+\b", r"\1-ID"),
        (r"(?<![\w.-])[A-Za-z0-9_-]{22}(?![\w.-])", "ID"),
        (r"127\.0\.0\.1[: \t]+\d+", "BROKER"),
        (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,:]\d{3}Z?\b", "TIME"),
        (r"\b1[78]\d{11}\b", "TIME"),
        (r"\[[^\]]*TIME\] ", ""),
        (r"\b(tries=|after )\d+(, | attempt)", r"\1N\2"),
    )
)
_SPACES = re.compile(r"[ \t]+")
_THREAD = re.compile(r"^\[[\w |-]+\] (?=ERROR|WARN)")
_REFUSAL = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+: .+)")
_RATES = re.compile(r"\b\d+\.\d+\b")

Mask = Callable[[list[str]], list[str]]


def lines(text: str, places: tuple[str, ...]) -> list[str]:
    """What a tool printed without what differs by nature: ids, times, addresses, stack frames."""
    for place in places:
        text = text.replace(place, "PLACE")
    found = []
    for line in text.splitlines():
        if line.startswith("\tat ") or line.lstrip().startswith("... "):
            continue
        line = line.strip()
        for pattern, shown in MASKS:
            line = pattern.sub(shown, line)
        line = _SPACES.sub(" ", line).strip()
        if line:
            found.append(line)
    return found


def in_any_order(found: list[str]) -> list[str]:
    """For listings whose order nobody promises."""
    return sorted(found)


def words_in_any_order(found: list[str]) -> list[str]:
    """For lists within a line that the tool itself prints in another order each time."""
    return sorted(" ".join(found).replace(",", " ").split())


def rates(found: list[str]) -> list[str]:
    """For measurements: only whole numbers count."""
    return [_RATES.sub("RATE", line) for line in found]


def columns(*hidden: str) -> Mask:
    """Of a table, the cells below these headings do not count: ids and times."""

    def mask(found: list[str]) -> list[str]:
        heads: list[str] = []
        shown = []
        for line in found:
            cells = line.split(" ")
            if not heads and set(hidden) & set(cells):
                heads = cells
            elif heads:
                pairs = zip(cells, [*heads, *[""] * len(cells)], strict=False)
                cells = [head.upper() if head in hidden else cell for cell, head in pairs]
            shown.append(" ".join(cells))
        return shown

    return mask


def sizes(found: list[str]) -> list[str]:
    """For logs of compressed batches: the times within them compress a little differently."""
    return [re.sub(r'"size":\d+', '"size":N', line) for line in found]


def measured(found: list[str]) -> list[str]:
    """The producer's measurement: how many records in all, nothing of how fast."""
    return [re.sub(r",.*", "", line) for line in found if "records sent" in line][-1:]


def consumed(found: list[str]) -> list[str]:
    """The consumers' measurement: bytes and records, nothing of times and rates."""
    kept: list[str] = []
    heads: list[str] = []
    for line in found:
        cells = [cell.strip() for cell in line.split(",")]
        if "data.consumed.in.MB" in cells:
            heads = cells
        elif heads and len(cells) == len(heads):
            pairs = dict(zip(heads, cells, strict=True))
            kept += [f"{head} {pairs[head]}" for head in heads if head.startswith("data.consumed")]
        elif not without_warnings([line]):
            continue
        else:
            kept.append(line)
    return kept


def without_warnings(found: list[str]) -> list[str]:
    """How often a client found nobody there, or had to wait, is a matter of time."""
    return [line for line in found if " WARN " not in line]


def without_threads(found: list[str]) -> list[str]:
    """Which of a client's threads says something is a matter of time."""
    return [_THREAD.sub("", line) for line in found]


def refusals(found: list[str]) -> list[str]:
    """Which refusals a client met: by which of its calls it hears of one is a matter of time."""
    return sorted(set(_REFUSAL.findall("\n".join(found))))


def events(found: list[str]) -> list[str]:
    """The verifiable clients' JSON lines: kinds of events and the records they sum up to."""
    counts: dict[str, int] = {}
    kinds: list[str] = []
    rest: list[str] = []
    for line in found:
        try:
            event = json.loads(line.replace('"timestamp":TIME', '"timestamp":0'))
        except ValueError:
            rest.append(line)
            continue
        name = str(event.get("name"))
        if name not in kinds:
            kinds.append(name)
        if name == "records_consumed":
            counts[name] = counts.get(name, 0) + int(event["count"])
        elif name == "producer_send_success":
            counts[name] = counts.get(name, 0) + 1
        elif name == "tool_data":
            rest.append(f"sent {event['sent']} acked {event['acked']}")
    return [*kinds, *(f"{name} {count}" for name, count in sorted(counts.items())), *rest]


def values_only(*hidden: str) -> Mask:
    """Lines that begin with none of `hidden`."""

    def keep(found: list[str]) -> list[str]:
        return [line for line in found if not line.startswith(hidden)]

    return keep
