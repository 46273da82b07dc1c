"""What happened in a run, and what of it must not be: the judge of exactly-once.

A feeder writes numbers that grow, each once, into the source topic. Copiers move these records from
there to two other topics, some at a time, each time in one transaction with the offsets of what
they took. A copy's value names what it is a copy of and the transaction it was written in, so that
the topics themselves tell the whole story; what feeder, copiers and readers noted at the time says
whether it is the right one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Source = tuple[int, int]
"""Partition and offset of a record that is to be copied."""
Place = tuple[str, int]
"""Topic and partition."""


class Copy(NamedTuple):
    """A record in a topic that copies go to."""

    place: Place
    offset: int
    source: Source
    transaction: str


@dataclass
class Transaction:
    """What a copier noted of one of its transactions."""

    copies: int = 0
    """How many it wrote, as far as it came."""
    commit_asked: bool = False
    committed: bool = False
    aborted: bool = False


@dataclass
class History:
    """A run."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    """Of each partition of the source, the numbers that the feeder was told are there."""
    written: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of each partition of the source, the numbers that are there when all is over."""
    seen: dict[str, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    """What each reader of committed data saw while all went on, in its order."""
    final: list[Copy] = field(default_factory=list)
    """What a reader of committed data sees when all is over."""

    def note(self, line: Mapping[str, object]) -> None:
        """Take in a copier's note: a transaction's name and what became of it."""
        one = self.transactions.setdefault(str(line["transaction"]), Transaction())
        match line["what"]:
            case "commit?":
                one.commit_asked = True
                one.copies = int(str(line["copies"]))
            case "committed":
                one.committed = True
            case "aborted":
                one.aborted = True


@dataclass(frozen=True)
class Verdict:
    """Counts of what must not be; all of them 0 in a sound run."""

    acknowledged: int
    committed: int
    copies: int
    lost: int
    duplicated: int
    aborted_reads: int
    torn: int
    wrong_order: int
    findings: list[str]

    def holds(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        text = (
            f"{self.acknowledged} records and {self.committed} transactions acknowledged, "
            f"{self.copies} copies: "
            f"lost {self.lost}, duplicated {self.duplicated}, "
            f"aborted reads {self.aborted_reads}, torn transactions {self.torn}, "
            f"out of order {self.wrong_order}"
        )
        return "\n  ".join([text, *self.findings[:20]])


def judge(history: History) -> Verdict:
    """Everything that is not as it must be."""
    findings: dict[str, list[str]] = {
        "lost": [*_lost_numbers(history), *_lost(history), *_lost_commits(history)],
        "duplicated": [*_duplicated_numbers(history), *_duplicated(history)],
        "aborted": [*_aborted(history), *_unstable_reads(history)],
        "torn": list(_torn(history)),
        "order": [*_unordered_numbers(history), *_went_back(history), *_two_values(history)],
    }
    return Verdict(
        acknowledged=sum(map(len, history.acknowledged.values())),
        committed=sum(one.committed for one in history.transactions.values()),
        copies=len(history.final),
        lost=len(findings["lost"]),
        duplicated=len(findings["duplicated"]),
        aborted_reads=len(findings["aborted"]),
        torn=len(findings["torn"]),
        wrong_order=len(findings["order"]),
        findings=[text for found in findings.values() for text in found],
    )


def _lost_numbers(history: History) -> Iterable[str]:
    for partition, numbers in history.acknowledged.items():
        for number in sorted(set(numbers).difference(history.written.get(partition, ()))):
            yield f"lost: {number} of partition {partition} was acknowledged, and is not there"


def _duplicated_numbers(history: History) -> Iterable[str]:
    for partition, numbers in history.written.items():
        for number, count in Counter(numbers).items():
            if count > 1:
                yield f"duplicated: {number} is {count} times in partition {partition}"


def _unordered_numbers(history: History) -> Iterable[str]:
    for partition, numbers in history.written.items():
        for former, number in pairwise(numbers):
            if number < former:
                yield f"order: {number} comes after {former} in partition {partition}"


def _lost(history: History) -> Iterable[str]:
    there = {copy.source for copy in history.final}
    for partition, numbers in history.acknowledged.items():
        for offset in range(len(numbers)):
            if (partition, offset) not in there:
                yield f"lost: record {offset} of partition {partition} was never copied"


def _lost_commits(history: History) -> Iterable[str]:
    there = {copy.transaction for copy in history.final}
    for name, one in history.transactions.items():
        if one.committed and one.copies and name not in there:
            yield f"lost: {name} was acknowledged, and nothing of it is there"


def _duplicated(history: History) -> Iterable[str]:
    for source, count in Counter(copy.source for copy in history.final).items():
        if count > 1:
            yield f"duplicated: {source} was copied {count} times"


def _aborted(history: History) -> Iterable[str]:
    for name in {copy.transaction for copy in history.final}:
        one = history.transactions.get(name)
        if one is None or one.aborted or not one.commit_asked:
            yield f"aborted read: {name} did not commit, and is read"


def _unstable_reads(history: History) -> Iterable[str]:
    final = {(copy.place, copy.offset): copy for copy in history.final}
    for reader, copies in history.seen.items():
        for copy in copies:
            if final.get((copy.place, copy.offset)) != copy:
                yield f"aborted read: {reader} saw {copy}, which is not there"


def _torn(history: History) -> Iterable[str]:
    there = Counter(copy.transaction for copy in history.final)
    for name, count in there.items():
        one = history.transactions.get(name)
        if one is not None and one.commit_asked and one.copies != count:
            yield f"torn: {count} of {one.copies} copies of {name} are read"


def _went_back(history: History) -> Iterable[str]:
    for reader, copies in [*history.seen.items(), ("the last reader", history.final)]:
        last: dict[Place, int] = {}
        for copy in copies:
            if copy.offset <= last.get(copy.place, -1):
                yield f"order: {reader} went back to {copy.offset} of {copy.place}"
            last[copy.place] = copy.offset


def _two_values(history: History) -> Iterable[str]:
    at: dict[tuple[Place, int], Copy] = {}
    for copies in history.seen.values():
        for copy in copies:
            if at.setdefault((copy.place, copy.offset), copy) != copy:
                yield f"order: two values at {copy.offset} of {copy.place}"
