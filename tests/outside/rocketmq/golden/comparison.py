"""Differences between two recordings of the same programs, and the list that explains them.

Frames are aligned by scenario, request and direction, and compared one by one. What a client
repeats by its clock is compared for all scenarios of the client together, as a set: how often it
comes, and in which scenario, differs between two runs of one broker. When a client asks for the
retry topic of its group depends on whether it asks for its route before or behind its heartbeat,
so such requests are left out, and so are more retries than the golden recording has. A delayed
message comes by the pull that waits in its queue: whether a scenario or none has sent that one
depends on the queue and on the time, so messages that the golden recording lacks are left out, too.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.topic_names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from tests.outside.rocketmq.golden.recording import Entry
from tests.outside.rocketmq.golden.views import Facts, facts, messages
from tests.support.listed_differences import fits

TIMED = frozenset(
    {
        RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ, RequestCode.GET_MAX_OFFSET, RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.UNREGISTER_CLIENT, RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, RequestCode.GET_MIN_OFFSET,
    }
)  # fmt: skip
"""Requests of running consumers."""
ALWAYS_TIMED = frozenset(
    {
        RequestCode.HEART_BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.UNREGISTER_CLIENT, RequestCode.UPDATE_CONSUMER_OFFSET,
    }
)  # fmt: skip
"""Requests that clients send beside those of a scenario."""
RUNNING = (
    "push", "retry", "dlq", "orderly", "broadcast", "litepull", "request-reply", "delay", "timer",
    "recall", "shutdown", "consumer", "mqadmin consumer", "tx",
)  # fmt: skip
"""How the names of scenarios begin in which consumers run."""
UNORDERED = ("send-async", "zip-pull")
"""Scenarios whose requests are sent at once, or find a message in any queue."""
RANDOM_QUEUE = "send-negative-queue-random"
"""The scenario of the raw client in which the broker chooses the queue; `replay` says more."""
BY_FACT = "admin"
"""Recordings of commands, which ask for each topic and queue of the broker: how many these are
differs, and which of them have messages."""
LOCKED = "body.lockOKMQSet"
"""The queues that a consumer has locked: which ones depends on when the other one leaves them."""
EMPTY = ("dict", "list")
"""Facts of an empty object or list in a body."""
DIFFERENCES = Path(__file__).parents[3] / "golden" / "rocketmq-differences.tsv"
"""The list of explained differences."""
ANY, ABSENT = "*", "-"
DECISIVE = ("is", "code", "remark")
CHOSEN = frozenset(
    {
        "ext.topic", "ext.consumerGroup", "ext.producerGroup", "ext.sysFlag", "ext.b",
        "ext.commitOffset", "ext.statsKey",
    }
)  # fmt: skip
"""Fields that differ between two runs: which topics a client has asked for so far, and whether its
pull stores an offset."""
DELAYED = frozenset({"message.properties.REAL_TOPIC", "message.properties.TIMER_DELIVER_MS"})
"""Facts of messages that were held until their time, or whose time was in the past."""
OF_TIME = frozenset({"PULL_NOT_FOUND", "PULL_RETRY_IMMEDIATELY", "SUBSCRIPTION_NOT_LATEST"})
"""Answers to pulls of a running consumer that depend on when they come: parked ones may be still
parked at the end, and one may come before its heartbeat."""
NOT_COUNTED = "The stats <GROUP_GET_NUMS>"
"""How RocketMQ begins to refuse the rate of a group that has not pulled from a topic yet."""
SKIPPED = frozenset({"java4.9-binary/pull-sql92"})
"""The recorded client refused this itself, before its first heartbeat was answered."""
SHORT = frozenset({"java5.5-LZ4", "java5.5-ZSTD"})
"""Recordings that may end before the first heartbeat."""
_NAME = re.compile(r"\S*(?:Sc|Adm|CG_|Raw)\S*")
_REQUESTS = {code.value: code.name for code in RequestCode}


class Difference(NamedTuple):
    """A fact in which the other recording differs from the golden one. `-`: it has none."""

    client: str
    scenario: str
    request: str
    direction: str
    path: str
    golden: str
    other: str


class Explained(NamedTuple):
    """A row of the list: patterns for the parts of a difference, and the reason."""

    client: str
    scenario: str
    request: str
    path: str
    golden: str
    other: str
    reason: str

    def matches(self, found: Difference) -> bool:
        """Whether this row explains a difference."""
        return all(
            fits(getattr(found, name), getattr(self, name))
            for name in ("client", "scenario", "request", "path", "golden", "other")
        )


def read_explained(path: Path) -> list[Explained]:
    """Return the rows of a list of differences."""
    with path.open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Explained(**row) for row in rows]


class _Key(NamedTuple):
    client: str
    scenario: str
    request: str
    direction: str
    is_set: bool


class _View(NamedTuple):
    """A frame's facts, and those of each of its messages."""

    frame: Facts
    messages: list[dict[str, str]]


Groups = dict[_Key, list[_View]]


def differences(golden: Iterable[Entry], other: Iterable[Entry]) -> list[Difference]:
    """Return the differences of a recording from the golden one, each once."""
    theirs, ours = _grouped(golden), _grouped(other)
    found: dict[Difference, None] = {}
    for key in theirs | ours:
        by_set = _sets if key.is_set else _sequences
        compare = _merged if key.client.startswith(BY_FACT) else by_set
        found |= dict.fromkeys(compare(theirs, ours, key))
    return list(found)


def _grouped(entries: Iterable[Entry]) -> Groups:
    """Return the facts of frames, by what they are compared with."""
    groups: Groups = defaultdict(list)
    for entry in entries:
        if entry.scenario in SKIPPED:
            continue
        scenario = entry.scenario.partition("/")[2]
        is_pooled = _is_timed(entry, scenario)
        is_set = is_pooled or scenario.startswith(UNORDERED)
        has_places = _has_places(entry, scenario)
        view = facts(entry, has_places=has_places)
        if is_pooled and view.get("code") in OF_TIME:
            continue
        if view.get("remark", "").startswith(NOT_COUNTED):
            continue
        parts = messages(entry, has_places=has_places)
        is_general = entry.client.startswith(BY_FACT) or scenario == RANDOM_QUEUE or is_pooled
        if is_general:
            if is_pooled and _is_retry(view):
                continue
            view = {
                path: _general(path, text)
                for path, text in view.items()
                if not is_pooled or not (text in EMPTY or path.startswith(LOCKED))
            }
        name = _REQUESTS.get(entry.request, str(entry.request))
        shown = ANY if is_pooled else scenario
        key = _Key(entry.client, shown, name, entry.direction, is_set)
        groups[key].append(_View(view, parts))
    return groups


def _general(path: str, text: str) -> str:
    """Return a fact without the topics and groups that differ between two runs."""
    if path in CHOSEN:
        return ANY
    return _NAME.sub(ANY, text) if path == "remark" else text


def _is_timed(entry: Entry, scenario: str) -> bool:
    """Whether a client repeats a request by its clock."""
    if entry.client.startswith("raw"):
        return False
    if entry.client.startswith(BY_FACT):
        return entry.request in TIMED
    is_running = entry.request in TIMED and scenario.startswith(RUNNING)
    return is_running or entry.request in ALWAYS_TIMED


def _has_places(entry: Entry, scenario: str) -> bool:
    """Whether queues and offsets are those of the program, not chosen at random."""
    if entry.client.startswith("raw"):
        return scenario != RANDOM_QUEUE
    return scenario.startswith(("pull-", "offset-"))


def _sequences(theirs: Groups, ours: Groups, key: _Key) -> Iterator[Difference]:
    """Yield the differences of frames that are compared one by one."""
    golden, other = theirs.get(key, []), ours.get(key, [])
    for left, right in zip(golden, other, strict=False):
        yield from _compared(key, left.frame, right.frame)
        if len(left.messages) != len(right.messages):
            counts = str(len(left.messages)), str(len(right.messages))
            yield _difference(key, "messages", *counts)
            continue
        for one, another in zip(left.messages, right.messages, strict=True):
            yield from _compared(key, one, another)
    if len(golden) != len(other):
        yield _difference(key, "frames", str(len(golden)), str(len(other)))


def _sets(theirs: Groups, ours: Groups, key: _Key) -> Iterator[Difference]:
    """Yield the differences of frames that are compared as a set, each from the most similar."""
    golden, other = theirs.get(key, []), ours.get(key, [])
    if bool(golden) != bool(other) and key.client not in SHORT:
        yield _difference(key, "frames", _some(golden), _some(other))
    if not golden or not other:
        return
    yield from _unlike(key, [each.frame for each in golden], [each.frame for each in other])
    left = [message for each in golden for message in each.messages]
    right = [message for each in other for message in each.messages]
    if left and right:
        yield from _unlike(key, left, right)
    elif left:
        yield _difference(key, "messages", "some", "0")


def _merged(theirs: Groups, ours: Groups, key: _Key) -> Iterator[Difference]:
    """Yield the differences of all frames of a command together, fact by fact.

    Requests of the clients that stand by are left out: other recordings have them.
    """
    if key.scenario == ANY:
        return
    golden, other = (
        {
            (path, text)
            for view in groups.get(key, [])
            for path, text in view.frame.items()
            if text not in EMPTY
        }
        for groups in (theirs, ours)
    )
    if bool(golden) != bool(other):
        yield _difference(key, "frames", *("some" if each else "0" for each in (golden, other)))
        return
    for path in sorted({path for path, _ in golden ^ other}):
        texts = (sorted(text for at, text in each if at == path) for each in (golden, other))
        left, right = (" ; ".join(each) or ABSENT for each in texts)
        yield _difference(key, path, left, right)


def _unlike(key: _Key, golden: Sequence[Facts], other: Sequence[Facts]) -> Iterator[Difference]:
    """Yield the differences of each fact without its like from the most similar one."""
    for left in golden:
        if left not in other:
            yield from _compared(key, left, _nearest(left, other))
    for right in other:
        if right not in golden and not _is_retry(right) and not DELAYED & right.keys():
            yield from _compared(key, _nearest(right, golden), right)


def _some(views: Sequence[_View]) -> str:
    return "some" if views else "0"


def _is_retry(view: Facts) -> bool:
    """Whether a request or a message is of a topic of retries or of dead letters."""
    topic = view.get("ext.topic") or view.get("message.topic") or ""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def _nearest(view: Facts, views: Sequence[Facts]) -> Facts:
    return min(views, key=lambda other: len(view.items() ^ other.items()))


def _compared(key: _Key, golden: Facts, other: Facts) -> Iterator[Difference]:
    """Yield the differences of two frames; of another code or kind nothing else is compared."""
    paths: Iterable[str] = golden.keys() | other.keys()
    if any(golden.get(path) != other.get(path) for path in DECISIVE):
        paths = DECISIVE
    for path in sorted(paths):
        left, right = (" ".join(each.get(path, ABSENT).split()) for each in (golden, other))
        if left != right:
            yield _difference(key, path, left, right)


def _difference(key: _Key, path: str, golden: str, other: str) -> Difference:
    return Difference(key.client, key.scenario, key.request, key.direction, path, golden, other)


def shown_differences(found: Iterable[Difference]) -> str:
    """Return differences as rows of the list, without a reason."""
    return "\n".join("\t".join((*each[:3], *each[4:])) for each in found)
