"""Counters of the branches of the replication rules that a story has taken.

`RULES` names the rule of each counter. The counters of `BRANCHES` are counted by wrapping the
product's functions while a story is played; the others by `replica_watch`, the clients and the
faults. Not covered, as no story of replicas reaches it: a replica that goes out of service rather
than lose committed records (tests/unit/replication), damaged replicas, requests refused to clients
that are no brokers (tests/unit/frontends), coordinators (test_coordinators_move.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple

from headrace.broker.partition import Partition
from headrace.broker.replica import replica_reads
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.former_terms import led_before
from headrace.broker.replica.in_sync_replicas import InSyncReplicas
from headrace.broker.replica.leader_term import LeaderTerm
from headrace.broker.waiters import CommitWaiters
from headrace.cluster.controller.controller import Controller
from headrace.cluster.decisions import isr_requests
from headrace.cluster.decisions.orders import Lead
from headrace.cluster.membership.applier import Applier
from headrace.cluster.membership.lease import Lease
from headrace.log import truncation
from headrace.log.producers.producer_states import Duplicate, ProducerStates
from headrace.log.recovery import after_unclean_stop
from headrace.model.errors import ApiError, ErrorCode
from headrace.replication.source import Source

Taken = Callable[..., bool]
"""Returns whether a call takes the branch.

Called with the function's arguments; after the call with its result or error before them.
"""


class Branch(NamedTuple):
    """A branch that a function takes, recognized by its arguments (before) or result (after)."""

    name: str
    rule: str
    owner: type | ModuleType
    function: str
    before: Taken | None = None
    after: Taken | None = None


def _is(code: ErrorCode) -> Taken:
    return lambda outcome, *_, **__: outcome is code or getattr(outcome, "code", None) is code


def _holds_up(isr: InSyncReplicas, some: frozenset[Any], others: frozenset[Any]) -> bool:
    """Return whether a replica of `some` lacks flushed records that all `others` have."""
    ends = isr._progress
    behind = min((ends[who].flushed_end for who in some if who in ends), default=None)
    rest = min((ends[who].flushed_end for who in others if who in ends), default=None)
    return behind is not None and (rest is None or behind < rest)


def _waits_for_joiner(term: LeaderTerm) -> bool:
    isr = term._isr
    return isr.pending is not None and _holds_up(isr, isr.maximal - isr.in_sync, isr.in_sync)


def _waits_for_leaver(term: LeaderTerm) -> bool:
    isr = term._isr
    if isr.pending is None:
        return False
    wanted = frozenset(member for member, _ in isr.pending.in_sync)
    return _holds_up(isr, isr.in_sync - wanted, wanted)


def _below_term(isr: InSyncReplicas, replica: Any, mark: int, *, flushed: bool) -> bool:  # noqa: ANN401
    if isr.pending is not None or replica in isr.maximal:
        return False
    return mark <= isr._end_of(replica, flushed=flushed) < isr.start


def _below_mark(isr: InSyncReplicas, replica: Any, mark: int, *, flushed: bool) -> bool:  # noqa: ANN401
    if isr.pending is not None or replica in isr.maximal:
        return False
    return isr._end_of(replica, flushed=flushed) < mark


def _cuts_committed(outcome: Any, follower: Follower, *_: object) -> bool:  # noqa: ANN401
    return isinstance(outcome, int) and outcome < follower._following.log.high_watermark


def _is_former(applier: Applier, order: Any, *_: object) -> bool:  # noqa: ANN401
    what = order.replication
    at = what.topic_partition, what.topic_id, what.leader_epoch
    return isinstance(order, Lead) and led_before(applier.former_terms, *at)


def _in_flush(source: Source, key: Any) -> bool:  # noqa: ANN401
    member = source.members.get(key)
    return member is not None and member.in_flush


def _written_before(outcome: Any, facts: Any, topic: Any, broker: Any, asked: Any) -> bool:  # noqa: ANN401
    version = topic.versions.get(asked.topic_partition.partition, -1) if topic else -1
    return outcome is ErrorCode.NONE and asked.partition_epoch < version


BRANCHES = (
    Branch("leases in doubt", "§1 alone in its maximal ISR, a leader acknowledges by its lease",
           Lease, "holds", after=lambda outcome, *_: not outcome),
    Branch("controllers resigned", "§1 the controller resigns when disconnected",
           Controller, "_resign", before=lambda controller: controller.is_controller),
    Branch("orders of earlier controllers", "§1 an older controller epoch is refused",
           Applier, "_check", after=_is(ErrorCode.STALE_CONTROLLER_EPOCH)),
    Branch("orders for earlier registrations", "§1 an older broker epoch is refused",
           Applier, "_check", after=_is(ErrorCode.STALE_BROKER_EPOCH)),
    Branch("orders of earlier leader epochs", "§1 an older leader epoch is refused",
           Applier, "_is_current", after=lambda outcome, *_: not outcome),
    Branch("leaders restarted", "§1 nobody leads on under an epoch of a former process",
           Applier, "_carry_out", before=_is_former),
    Branch("requests of earlier leader epochs", "§1 fetches and appends are fenced by epoch",
           Partition, "check_epoch", after=_is(ErrorCode.FENCED_LEADER_EPOCH)),
    Branch("too few in sync", "§2 below min.insync.replicas the high watermark stands still",
           LeaderTerm, "committed_end", before=lambda term: term.too_few_in_sync),
    Branch("writes refused after append", "§2 who waits is told when the ISR gets too small",
           CommitWaiters, "too_few_replicas",
           before=lambda waiters: any(waiter[2] for waiter in waiters.waiting or ())),
    Branch("waited for a joiner", "§2 the high watermark waits for a pending join",
           LeaderTerm, "committed_end", before=_waits_for_joiner),
    Branch("waited for a leaver", "§2 nothing is committed before a shrink is written",
           LeaderTerm, "committed_end", before=_waits_for_leaver),
    Branch("joins below the high watermark", "§2 nobody joins who lacks committed records",
           InSyncReplicas, "join", before=_below_mark),
    Branch("joins below the term's start", "§2 nor who lacks what was there at the term's start",
           InSyncReplicas, "join", before=_below_term),
    Branch("ISR answers lost", "§2 without an answer the union stays in force",
           InSyncReplicas, "answer_lost", before=lambda isr: isr.pending is not None),
    Branch("ISRs refused", "§2 what is refused is not in force",
           InSyncReplicas, "refused", after=lambda outcome, *_: outcome is None),
    Branch("ISRs of earlier leaders", "§2 a leader that was replaced changes no ISR",
           isr_requests, "refusal", after=_is(ErrorCode.FENCED_LEADER_EPOCH)),
    Branch("ISRs on outdated states", "§2 an ISR is written with the version it was asked on",
           isr_requests, "refusal", after=_is(ErrorCode.INVALID_UPDATE_VERSION)),
    Branch("ISRs asked for again", "§2 what was written already is said again",
           isr_requests, "refusal", after=_written_before),
    Branch("ineligible joiners", "§3 AlterPartition checks each member's registration",
           isr_requests, "refusal", after=_is(ErrorCode.INELIGIBLE_REPLICA)),
    Branch("own flush held the mark", "§2 a follower shows no more than it has flushed",
           Follower, "committed_end",
           before=lambda follower: follower.leader_high_watermark
           > follower._following.log.flushed_offset),
    Branch("left out in flush", "§2 a partition in flush is not fetched",
           Source, "changed", before=_in_flush),
    Branch("fetches of earlier registrations", "§3 progress is bound to the ReplicaEpoch",
           replica_reads, "note_fetch", after=_is(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    Branch("fetches of later registrations", "§3 who is registered anew joins when that is known",
           LeaderTerm, "note_fetch", before=lambda *_, may_join=True: not may_join),
    Branch("cut after unclean elections", "§4 below the own mark only after an unclean election",
           Follower, "offset_to_cut", after=_cuts_committed),
    Branch("torn tails cut", "§4 recovery cuts what a power cut tore, above the recovery point",
           after_unclean_stop, "_cut", before=lambda *_: True),
    Branch("producers rebuilt by cuts", "§5 a truncation rebuilds producer state",
           truncation, "_take_end", before=lambda *_: True),
    Branch("snapshots rebuilt", "§5 recovery writes snapshots that are missing",
           after_unclean_stop, "_snapshot",
           before=lambda log, base: log.snapshot_offset != base),
    Branch("starts moved with the leader's", "§5 log start travels with fetches",
           Follower, "move_start",
           before=lambda follower, start: min(start, follower._following.log.high_watermark)
           > follower._following.log.start_offset),
    Branch("duplicates", "G5 what a producer sends again is stored once",
           ProducerStates, "check", after=lambda outcome, *_: isinstance(outcome, Duplicate)),
)  # fmt: skip

RULES = {branch.name: branch.rule for branch in BRANCHES} | {
    "unclean elections": "§3 a replica out of sync is elected only where that is allowed",
    "empty replicas out of the ISR": "§3 who comes back empty leaves the ISR",
    "starts refused": "§1 a registration of another session is waited for",
    "back before the session ended": "§1 a broker's own former registration is deleted",
    "ends not known yet": "§2 ListOffsets waits for the term's start (KIP-207)",
    "partitions without a leader": "§3 nobody leads while none in sync can",
    "ISR shrinks": "§2 who lags leaves",
    "ISR expansions": "§2 who has all joins",
    "logs cut": "§4 a log is cut where it leaves its leader's",
    "logs begun anew": "§5 a follower below the leader's start begins there",
    "writes given up": "G2 a write of unknown outcome is judged neither way",
}
"""The rule of each counter; over many seeds every counter must be above 0."""


@contextmanager
def counted_branches(counts: Counter[str]) -> Iterator[None]:
    """Count the branches taken inside the `with` block."""
    former: list[tuple[type | ModuleType, str, Any]] = []
    try:
        for branch in BRANCHES:
            was = vars(branch.owner)[branch.function]
            former.append((branch.owner, branch.function, was))
            setattr(branch.owner, branch.function, _counting(was, branch, counts))
        yield
    finally:
        for owner, function, was in reversed(former):
            setattr(owner, function, was)


def _counting(
    function: Callable[..., object], branch: Branch, counts: Counter[str]
) -> Callable[..., object]:
    before, after = branch.before, branch.after

    @wraps(function)
    def counting(*args: object, **keywords: object) -> object:
        if before is not None:
            counts[branch.name] += before(*args, **keywords)
            return function(*args, **keywords)
        try:
            outcome = function(*args, **keywords)
        except ApiError as error:
            counts[branch.name] += after is not None and after(error, *args, **keywords)
            raise
        counts[branch.name] += after is not None and after(outcome, *args, **keywords)
        return outcome

    return counting
