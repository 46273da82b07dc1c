"""`make compat`: Kafka's own command-line tools against us and against Kafka, outputs compared.

Every step of `steps.py` runs the stock tool of Apache Kafka 4.3.1 twice, once for each broker, each
on a fresh directory. Exit status and output must be the same, ids, times and rates masked; what
differs and stays so is in `stays.py` and in the steps' `known`, with reasons that are printed.

    python -m tests.outside.kafka_tools [--keep] [topics] [configs] [quotas] …
"""

import argparse
import difflib
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from headrace.frontends.kafka.connection.registry import APIS
from tests.outside.kafka_reads_our_files.brokers import Headrace, Kafka4
from tests.outside.kafka_reads_our_files.jvm import NoJvm
from tests.outside.kafka_tools import stays
from tests.outside.kafka_tools.step import Printed, Side, Step, archive
from tests.outside.kafka_tools.steps import BEFORE, SECTIONS

SETTINGS = {
    "log.retention.ms": 604_800_000,
    "log.message.timestamp.after.max.ms": 3_600_000,
    "offsets.retention.minutes": 10_080,
    "group.share.enable": "true",
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
}


@dataclass
class Verdicts:
    """What came of all steps."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, word: str, step: Step, reasons: Sequence[str] = (), details: str = "") -> None:
        """Print and count one step's outcome."""
        self.counts[word] += 1
        self.reasons.update(reasons)
        print(f"  {word:9} {step.name}{details}", flush=True)


def judge(step: Step, printed: Sequence[Printed], verdicts: Verdicts) -> None:
    """Compare what one step printed on both sides."""
    ours, theirs = printed
    shown = "\n".join(ours.lines)
    wrong = [f"without {text!r}: {ours.shown}" for text in step.expected if text not in shown]
    reasons = stays.left(ours.shown, theirs.shown)
    if step.check is not None:
        wrong += [*ours.lines, *theirs.lines]
    elif step.known and not reasons and reasons is not None:
        wrong.append(f"is the same now, but said to differ: {step.known}")
    elif not step.known and reasons is None:
        names = ("Kafka", "Headrace")
        wrong += difflib.unified_diff(theirs.shown, ours.shown, *names, lineterm="", n=1)
    if wrong:
        verdicts.add("DIFFERS", step, details="".join(f"\n      {line}" for line in wrong))
    elif step.known:
        verdicts.add("known", step, [step.known], f": {step.known}")
    elif reasons:
        verdicts.add("but for", step, reasons, f": {'; '.join(reasons)}")
    else:
        verdicts.add("same", step)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where nothing differs that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.outside.kafka_tools")
    parser.add_argument(
        "sections", nargs="*", help=f"{', '.join(SECTIONS)}; all of them without one"
    )
    parser.add_argument("--keep", action="store_true", help="leave the directories there")
    parser.add_argument("--raw", action="store_true", help="show what the tools printed")
    given = parser.parse_args(arguments)
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    place = Path(tempfile.mkdtemp(prefix="headrace-tools-"))
    try:
        return _run(place, given.sections or list(SECTIONS), raw=given.raw)
    except NoJvm as missing:
        print(missing, file=sys.stderr)
        return 1
    finally:
        if given.keep:
            print(f"left: {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def _wanted(sections: Sequence[str]) -> list[str]:
    """The sections and those that must run before them, in their order."""
    found = set(sections)
    while more := {before for one in found for before in BEFORE.get(one, ())} - found:
        found |= more
    return [name for name in SECTIONS if name in found]


def _run(place: Path, sections: Sequence[str], *, raw: bool) -> int:
    served = {api.key for api in APIS}
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    ours = Headrace(place / "ours", place / "ours" / "log", **settings, broker_id=1)
    theirs = Kafka4(place / "kafka", place / "kafka" / "log", **settings)
    verdicts = Verdicts()
    began = time.monotonic()
    with ours, theirs, ThreadPoolExecutor(2) as pool:
        flags = archive(theirs, place / "tools.jsa")
        sides = [Side(one, one.place / "tools", *flags) for one in (ours, theirs)]
        try:
            for name in _wanted(sections):
                print(f"{name}, after {time.monotonic() - began:.0f} s", flush=True)
                for step in SECTIONS[name]():
                    if not served.issuperset(step.needs):
                        verdicts.add("left out", step, details=": its APIs are not served")
                        continue
                    compare(step, sides, pool, verdicts, raw=raw)
        finally:
            for side in sides:
                side.close()
    sum_up(verdicts, time.monotonic() - began, "Kafka 4.3.1's tools")
    return bool(verdicts.counts["DIFFERS"])


def compare(
    step: Step, sides: Sequence[Side], pool: Executor, verdicts: Verdicts, *, raw: bool
) -> None:
    """Run a step on all sides at once and judge what they printed; `raw` shows that too."""
    printed = list(pool.map(lambda side: side.run(step), sides))
    judge(step, printed, verdicts)
    if raw:
        print(*(f"----\n{one.raw}" for one in printed), sep="")


def sum_up(verdicts: Verdicts, seconds: float, title: str) -> None:
    """Print how many steps came out how; `title` says what was run."""
    counts = verdicts.counts
    print(
        f"{title}, {counts.total() - counts['left out']} runs on each broker in"
        f" {seconds:.0f} s: {counts['same']} the same, {counts['but for']} the same but for what"
        f" stays, {counts['known']} known to differ, {counts['DIFFERS']} differ,"
        f" {counts['left out']} left out"
    )
    for reason, count in verdicts.reasons.most_common():
        print(f"    {count:3} x {reason}")


if __name__ == "__main__":
    sys.exit(main())
