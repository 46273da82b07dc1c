"""The log of any history of declarations, applied, is the durable part of the model."""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.posix.clock import RealClock
from headrace.queues.model.declarations import ExchangeFlags, QueueCounts, QueueFlags
from headrace.queues.model.durability import Model
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.model.policies.vhost_policy import PolicyId
from headrace.queues.model.stored_model import durable_records
from headrace.queues.model.stored_records import encode_record
from headrace.queues.model.vhost_table import VhostTable
from headrace.queues.model.virtual_host import VirtualHost
from headrace.queues.refusals import Refused
from headrace.vhosts import durable_queues
from headrace.vhosts.declarations.followed_table import FollowedTable
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.durable_queues import DurableQueues
from headrace.vhosts.policies.commands import PolicyChange, change_policies
from tests.support.examples import examples
from tests.support.queues.policies import vhost_policy

NAMES, KEYS = ("a", "b"), ("k.x", "#")
Appended = list[tuple[bytes, bytes | None]]

flags = st.booleans()
names = st.sampled_from(NAMES)
rarely = st.sampled_from([False, False, False, True])
durable = st.sampled_from([True, True, True, False])
declared_exchanges = st.tuples(
    st.just("exchange"), names, st.sampled_from(["topic", "fanout", "direct"]), durable, flags
)
declared_queues = st.tuples(
    st.just("queue"), names, st.sampled_from([{}, {"x-max-length": 5}]), durable, rarely, flags
)
bindings = st.tuples(
    st.sampled_from(["bind", "bind", "bind", "unbind"]), names,
    st.sampled_from([Destination(kind, name) for kind in ("queue", "exchange") for name in NAMES]),
    st.sampled_from(KEYS), st.sampled_from([{}, {}, {"x": 1}]),
)  # fmt: skip
deletions = st.tuples(st.sampled_from(["delete exchange", "delete queue"]), names)
policies = st.tuples(st.just("policy"), names, rarely, st.integers(1, 3), st.integers(0, 2))
cleared = st.tuples(st.just("clear policy"), names, rarely)
ends = st.tuples(st.just("connection closed"))
turns = st.tuples(st.just("turns"), st.integers(1, 6))
failures = st.tuples(st.just("fails"), st.sampled_from(["before", "after"]))
histories = st.lists(
    st.one_of(
        declared_exchanges,
        declared_exchanges,
        declared_queues,
        declared_queues,
        bindings,
        bindings,
        bindings,
        deletions,
        policies,
        policies,
        cleared,
        ends,
        turns,
        failures,
    ),
    max_size=40,
)


class Log:
    """A log of declarations in memory, whose appends take a turn, and may fail."""

    def __init__(self) -> None:
        self.appended: Appended = []
        self.fails: str | None = None

    async def append(self, changes: Mapping[bytes, Change]) -> None:
        if not changes:
            return
        fails, self.fails = self.fails, None
        new = [(key, change.value) for key, change in changes.items()]
        await asyncio.sleep(0)
        if fails != "before":
            self.appended += new
        if fails is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


def command(host: VirtualHost, owner: object, step: tuple[Any, ...]) -> None:
    """Do a command of a client; a refused one changes nothing."""
    match step:
        case "exchange", name, kind, is_durable, auto_delete:
            found = ExchangeFlags(durable=is_durable, auto_delete=auto_delete)
            host.declare_exchange(name, kind, found, {})
        case "queue", name, arguments, is_durable, exclusive, auto_delete:
            host.declare_queue(
                name, QueueFlags(is_durable, exclusive, auto_delete), arguments, owner
            )
        case "bind", source, destination, key, arguments:
            host.bind(Binding(source, destination, key, arguments), owner)
        case "unbind", source, destination, key, arguments:
            host.unbind(Binding(source, destination, key, arguments), owner)
        case "delete exchange", name:
            host.delete_exchange(name)
        case "delete queue", name:
            host.delete_queue(name, owner, QueueCounts())
        case "policy", name, operators, length, now:
            wanted = vhost_policy(name, operators=operators, length=length)
            change_policies(host, [PolicyChange(wanted.id, wanted.policy)], now)
        case "clear policy", name, operators:
            change_policies(host, [PolicyChange(PolicyId(name, operators), None)], 0)
        case ("connection closed",):
            host.connection_closed(owner)


async def played(history: list[tuple[Any, ...]]) -> tuple[VirtualHost, Appended]:
    """Play a history; return the model and what was appended to the log."""
    log: Any = Log()
    broker: Any = SimpleNamespace(
        disk=None,
        clock=RealClock(asyncio.get_running_loop()),
        image=SimpleNamespace(topics={}),
        partition=None,
    )
    queues = DurableQueues(broker, broker, log)
    host = VirtualHost("/", lambda: bytes(16), kept=queues)
    owner = object()
    for step in history:
        if step[0] == "turns":
            for _ in range(step[1]):
                await asyncio.sleep(0)
        elif step[0] == "fails":
            log.fails = step[1]
        else:
            with suppress(Refused):
                command(host, owner, step)
    log.fails = None
    stored = False
    while not stored:
        with suppress(ApiError):
            await called_back(queues.when_kept)
            stored = True
    await queues.close([])
    return host, log.appended


def durable_part(host: Model) -> set[bytes]:
    """All durable declarations of a model, as they are stored."""
    return {encode_record(host.name, record) for record in durable_records(host)}


def routes(table: VhostTable) -> dict[tuple[str, str], tuple[str, ...]]:
    """The queues that a message reaches from each declared exchange."""
    return {
        (name, key): table.router.route(name, key)
        for name in NAMES
        if name in table.exchanges
        for key in ("k.x", "other")
    }


def followed(table: VhostTable) -> FollowedTable:
    """Return a table of the log whose only vhost has `table`."""
    return FollowedTable(lambda _: table, lambda *_: None, 0.0)


def apply_all(to: FollowedTable, records: Appended) -> None:
    """Apply records in their order."""
    for key, value in records:
        to.take(key, value)


def applied(records: Appended) -> VhostTable:
    """Return the table of a vhost after these records."""
    table = VhostTable("/")
    apply_all(followed(table), records)
    return table


def compacted(records: Appended, draw: random.Random) -> Appended:
    """Return the log after a compaction, which may remove tombstones."""
    last = {key: at for at, (key, _) in enumerate(records)}
    return [
        (key, value)
        for at, (key, value) in enumerate(records)
        if last[key] == at and (value is not None or draw.random() < 0.5)
    ]


@pytest.fixture(autouse=True, scope="module")
def quick() -> Any:
    """Repeat failed rounds at once, without a word, and wait for no other client."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable_queues, "_logger", SimpleNamespace(error=lambda *_: None))
        patch.setattr(durable_queues, "RETRY_SECONDS", 0)
        patch.setattr(durable_queues, "GATHER_SECONDS", 0)
        yield


BOUND_TO_BOTH: list[tuple[Any, ...]] = [
    ("exchange", "a", "topic", True, True),
    ("queue", "a", {}, True, False, False),
    ("queue", "b", {}, False, False, False),
    ("bind", "a", Destination("queue", "a"), "#", {}),
    ("bind", "a", Destination("queue", "b"), "#", {}),
    ("turns", 6),
]
"""A history after which an exchange is bound to a durable queue and to a transient one."""


@settings(max_examples=examples(300))
@given(histories, st.randoms(use_true_random=False))
@example(
    # Set again while the first change is appended, which fails.
    [
        ("fails", "after"),
        ("policy", "a", False, 1, 0),
        ("turns", 1),
        ("policy", "a", False, 2, 1),
        ("turns", 6),
        ("clear policy", "a", False),
        ("policy", "a", False, 3, 2),
    ],
    random.Random(0),
)
@example(
    # Appended, although the round is reported as failed; then deleted.
    [
        ("fails", "after"),
        ("exchange", "a", "topic", True, False),
        ("turns", 2),
        ("delete exchange", "a"),
    ],
    random.Random(0),
)
@example(
    # The exchange stays, as it is bound to a transient queue.
    [
        *BOUND_TO_BOTH,
        ("delete queue", "a"),
    ],
    random.Random(0),
)
@example(
    [
        *BOUND_TO_BOTH,
        ("unbind", "a", Destination("queue", "a"), "#", {}),
    ],
    random.Random(0),
)
@example(
    [
        ("exchange", "a", "topic", True, True),
        ("exchange", "b", "topic", True, False),
        ("queue", "b", {}, False, False, False),
        ("bind", "a", Destination("exchange", "b"), "#", {}),
        ("bind", "a", Destination("queue", "b"), "#", {}),
        ("turns", 6),
        ("delete exchange", "b"),
    ],
    random.Random(0),
)
def test_log_of_any_history_gives_the_durable_part_of_the_model(
    history: list[tuple[Any, ...]], draw: random.Random
) -> None:
    host, log = asyncio.run(played(history))
    wanted = durable_part(host)
    whole = applied(log)
    assert durable_part(whole) == wanted
    assert durable_part(applied(compacted(log, draw))) == wanted
    restored = applied([(b"", encode_record("/", record)) for record in durable_records(host)])
    assert routes(whole) == routes(restored)


@settings(max_examples=examples(300))
@given(histories, st.randoms(use_true_random=False))
def test_log_may_be_applied_again_from_any_earlier_offset(
    history: list[tuple[Any, ...]], draw: random.Random
) -> None:
    host, log = asyncio.run(played(history))
    table = VhostTable("/")
    declarations = followed(table)
    at = 0
    while at < len(log):
        end = draw.randint(at + 1, len(log))
        apply_all(declarations, log[draw.randint(0, at) : end])
        at = end
    assert durable_part(table) == durable_part(host)
    assert routes(table) == routes(applied(log))
    apply_all(declarations, [(key, None) for key in dict(log)])
    assert durable_part(table) == set(), "each declaration is found by its key"
