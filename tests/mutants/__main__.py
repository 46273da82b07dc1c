"""`make mutants`: every listed fault, and some drawn by machine, each against the suite.

    python -m tests.mutants [--drawn 200] [--seed 1] [--changed-since COMMIT] [--no-listed]

Ends with a table; with status 1 where a listed fault went unnoticed or fewer than 95 % of the drawn
ones were noticed, with status 2 where a list itself is wrong.
"""

import argparse
import queue
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tests.mutants.draw import changed_since, draw
from tests.mutants.faults import Drawn, with_drawn
from tests.mutants.lists import Listed, NoSuchFault, equivalent, found, listed
from tests.mutants.runs import Outcome
from tests.mutants.seen import Seen, measure
from tests.mutants.table import Counts
from tests.mutants.trial import (
    FOUND,
    HANGS,
    NOTICED,
    REFUSED,
    SURVIVED,
    UNTESTED,
    Copy,
    Verdict,
    copies,
)

WORKERS = 2
LISTED_SECONDS_MAX = 150.0
BASELINE_SECONDS_MAX = 600.0
DRAWN_TEST_SECONDS = 40.0
"""How long the tests that are asked about a drawn fault take in all, as measured."""
DRAWN_SECONDS_MAX = 150.0
WIDER_TEST_SECONDS = 120.0
"""The same of all tests asked about a fault that the first ones do not notice."""
WIDER_SECONDS_MAX = 240.0

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Workers:
    """The copies of the source, each in the hand of one thread at a time."""

    def __init__(self, hands: Iterable[Copy]) -> None:
        self._free: queue.Queue[Copy] = queue.Queue()
        for hand in hands:
            self._free.put(hand)

    def map(
        self, work: Callable[[Copy, Item], Answer], items: list[Item]
    ) -> list[tuple[Item, Answer]]:
        """Each item with its answer, in the order of the items."""

        def with_a_copy(item: Item) -> Answer:
            copy = self._free.get()
            try:
                return work(copy, item)
            finally:
                self._free.put(copy)

        with ThreadPoolExecutor(WORKERS) as pool:
            return list(zip(items, pool.map(with_a_copy, items), strict=True))


def planted(root: Path, entry: Listed) -> str:
    """The text of the entry's file with its fault; NoSuchFault where it does not fit."""
    return with_drawn((root / entry.file).read_text(), found(root, entry))


def useless(workers: Workers, entries: list[Listed]) -> tuple[list[str], set[str]]:
    """Tests of the lists that do not pass without a fault: they fail, are skipped or are not.

    And those that pass, but not in a process that has imported all before.
    """
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in sorted({entry.test for entry in entries}):
        by_file[test.partition("::")[0]].append(test)

    def ask(copy: Copy, tests: list[str]) -> tuple[list[str], list[str]]:
        _, outcomes = copy.run_warm(tests, BASELINE_SECONDS_MAX)
        cold = [test for test in tests if not _passed(test, outcomes)]
        # One name that pytest does not know keeps it from running the others.
        return [test for test in cold if not _passed(test, copy.run([test], 120)[1])], cold

    answers = workers.map(ask, [by_file[file] for file in sorted(by_file)])
    wrong = [test for _, (tests, _) in answers for test in tests]
    return wrong, {test for _, (_, tests) in answers for test in tests}


def _passed(test: str, outcomes: dict[str, Outcome]) -> bool:
    own = [
        outcome
        for name, outcome in outcomes.items()
        if name == test or name.startswith((test + "[", test + "::"))
    ]
    return any(not outcome.skipped for outcome in own) and not any(one.failed for one in own)


def try_listed(root: Path, workers: Workers, entries: list[Listed], cold: set[str]) -> list[Listed]:
    """Plant each entry; those its test did not notice. Tests in `cold` start afresh."""

    def judge(copy: Copy, entry: Listed) -> Verdict:
        text, warm = planted(root, entry), entry.test not in cold
        verdict = copy.judge(entry.file, text, [entry.test], LISTED_SECONDS_MAX, warm=warm)
        print(f"{verdict.word:9} {entry}", flush=True)
        return verdict

    verdicts = workers.map(judge, entries)
    return [entry for entry, verdict in verdicts if verdict.word not in NOTICED]


def try_drawn(
    root: Path, workers: Workers, seen: Seen, faults: list[Drawn]
) -> list[tuple[Drawn, Verdict]]:
    """Plant each drawn fault and ask the tests that run its lines."""

    sound: dict[str, bool] = {}

    def confirmed(
        copy: Copy, fault: Drawn, text: str, tests: list[str], seconds_max: float
    ) -> Verdict:
        """A verdict that rests on a test which passes without the fault, asked once per test."""
        while True:
            verdict = copy.judge(fault.file, text, tests, seconds_max)
            test = verdict.test
            if verdict.word != FOUND or test not in seen.seconds:
                return verdict
            if test not in sound:
                sound[test] = copy.passes(test)
            if sound[test]:
                return verdict
            print(f"fails without a fault, is not asked: {test}", flush=True)
            tests = [other for other in tests if other != test]

    def judge(copy: Copy, fault: Drawn) -> Verdict:
        began = time.monotonic()
        text = with_drawn((root / fault.file).read_text(), fault)
        tests = seen.choose(fault.file, *fault.run, DRAWN_TEST_SECONDS, at_import=fault.at_import)
        verdict = confirmed(copy, fault, text, tests, DRAWN_SECONDS_MAX)
        if verdict.word in (SURVIVED, UNTESTED) and not copy.is_typed(fault.file, text):
            verdict = Verdict(REFUSED, "mypy", len(tests))
        wider = seen.wider(fault.file, *fault.run, WIDER_TEST_SECONDS)
        others = [test for test in wider if test not in tests]
        if verdict.word in (SURVIVED, UNTESTED) and others:
            verdict = confirmed(copy, fault, text, others, WIDER_SECONDS_MAX)
            verdict = replace(verdict, asked=len(tests) + len(others))
        took = time.monotonic() - began
        by = f"  by {verdict.test}" if verdict.test else ""
        print(f"{verdict.word:9} {took:4.0f} s  {fault}{by}", flush=True)
        return verdict

    return workers.map(judge, faults)


def survivor(fault: Drawn, verdict: Verdict) -> str:
    """How a survivor is shown: where it is, what it changes, how many tests were asked."""
    place = f"{fault.file}:{fault.line}: {fault.kind}, in {fault.function or 'the module'}"
    return f"{place}: {verdict.word}, {verdict.asked} tests asked\n{fault.diff()}\n"


def main() -> int:
    """Plant the faults that the command line asks for; the status of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--drawn", type=int, default=200, help="how many faults to draw")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--no-listed", action="store_true", help="leave out the lists")
    parser.add_argument("--room", help="only this room's list")
    parser.add_argument("--changed-since", help="draw half in files changed since this commit")
    options = parser.parse_args()
    root = Path.cwd()
    entries = [] if options.no_listed else listed()
    entries = [entry for entry in entries if options.room in (None, entry.room)]
    try:
        for entry in entries:
            planted(root, entry)
        known = equivalent(root)
    except NoSuchFault as error:
        print(error, file=sys.stderr)
        return 2
    young = changed_since(root, options.changed_since) if options.changed_since else frozenset()
    drawn = draw(root, options.drawn, options.seed, young)
    counts = run(root, entries, drawn, known)
    return 2 if counts is None else not counts.good


def run(
    root: Path,
    entries: list[Listed],
    drawn: list[Drawn],
    known: set[tuple[str, str, str]],
) -> Counts | None:
    """Plant all of them and print what came of it; None where a list names a useless test."""
    real = [fault for fault in drawn if fault.key not in known]
    seen = measure(root, WORKERS) if real else Seen({}, {}, {})
    with copies(root, WORKERS) as hands:
        workers = Workers(hands)
        wrong, cold = useless(workers, entries)
        for test in wrong:
            print(f"does not pass without a fault: {test}", file=sys.stderr, flush=True)
        if wrong:
            return None
        unnoticed = try_listed(root, workers, entries, cold)
        verdicts = try_drawn(root, workers, seen, real)
    words = [verdict.word for _, verdict in verdicts]
    survivors = [(fault, verdict) for fault, verdict in verdicts if verdict.word not in NOTICED]
    for entry in unnoticed:
        print(f"\nunnoticed: {entry}\n  {entry.test}")
    for fault, verdict in survivors:
        print(f"\n{survivor(fault, verdict)}", end="")
    counts = Counts(
        listed=len(entries),
        unnoticed=len(unnoticed),
        drawn=len(drawn),
        found=words.count(FOUND),
        hangs=words.count(HANGS),
        refused=words.count(REFUSED),
        equivalent=len(drawn) - len(real),
    )
    print(f"\n{counts}")
    return counts


if __name__ == "__main__":
    sys.exit(main())
