"""`make compat`: Kafka's own command-line tools against us and against Kafka, outputs compared.

Every step of `steps.py` runs the stock tool of Apache Kafka 4.3.1 twice, once for each broker, each
on a fresh directory. Exit status and output must be the same, ids, times and rates masked.

    python -m tests.compat_tools [--keep] [topics] [configs] [quotas] …
"""

import argparse
import difflib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace.frontends.kafka.registry import APIS
from tests.compat_tools import masks
from tests.compat_tools.steps import BEFORE, SECTIONS, Step
from tests.kafka_judge.brokers import Broker, Headrace, Kafka4
from tests.kafka_judge.jvm import KAFKA_4, NoJvm, java

SETTINGS = {
    "log.retention.ms": 604_800_000,
    "log.message.timestamp.after.max.ms": 3_600_000,
    "offsets.retention.minutes": 10_080,
    "group.share.enable": "true",
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
}


@dataclass(frozen=True)
class Printed:
    """What one run of a tool ended with."""

    status: int
    lines: list[str]
    raw: str

    @property
    def shown(self) -> list[str]:
        """Everything that is compared."""
        return [*self.lines, f"exit status {self.status}"]


class Side:
    """One broker and the directory its tools may write to."""

    def __init__(self, broker: Broker, place: Path) -> None:
        self.broker = broker
        self.place = place
        place.mkdir(parents=True, exist_ok=True)

    def run(self, step: Step) -> Printed:
        """Run one step's tool."""
        if step.prepare is not None:
            step.prepare(self.place)
        words = f"{step.words} {step.address}".format(
            broker=self.broker.bootstrap, place=self.place
        )
        command = java(KAFKA_4, step.heap, step.tool, *words.split())
        try:
            done = subprocess.run(
                command,
                input=step.stdin,
                capture_output=True,
                text=True,
                timeout=step.seconds_max,
                check=False,
                cwd=self.place,
            )
        except subprocess.TimeoutExpired as late:
            out = late.stdout or b""
            text = out.decode(errors="replace") if isinstance(out, bytes) else out
            return Printed(-1, [f"not done after {step.seconds_max:g} s"], text)
        places = (str(self.broker.log.resolve()), str(self.broker.log), str(self.place))
        found = masks.lines(done.stdout, places) + masks.lines(done.stderr, places)
        for mask in step.mask:
            found = mask(found)
        return Printed(done.returncode, found, done.stdout + done.stderr)


def judge(step: Step, sides: Sequence[Side], pool: ThreadPoolExecutor) -> list[str]:
    """Run one step on all sides; what is wrong, line by line."""
    printed = list(pool.map(lambda side: side.run(step), sides))
    ours, theirs = printed[0], printed[-1]
    wrong = [
        f"without {text!r}: {ours.shown}"
        for text in step.expected
        if text not in "\n".join(ours.lines)
    ]
    if theirs.shown != ours.shown:
        wrong += list(
            difflib.unified_diff(theirs.shown, ours.shown, "Kafka", "Headrace", lineterm="", n=1)
        )
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 where nothing differs that is not known to."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat_tools")
    parser.add_argument(
        "sections", nargs="*", help=f"{', '.join(SECTIONS)}; all of them without one"
    )
    parser.add_argument("--keep", action="store_true", help="leave the directories there")
    given = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="headrace-tools-"))
    try:
        return _run(place, given.sections or list(SECTIONS))
    except NoJvm as missing:
        print(missing, file=sys.stderr)
        return 1
    finally:
        if not given.keep:
            shutil.rmtree(place, ignore_errors=True)


def _run(place: Path, sections: Sequence[str]) -> int:
    wanted = [
        name
        for name in SECTIONS
        if name in sections or any(name in BEFORE.get(one, ()) for one in sections)
    ]
    served = {api.key for api in APIS}
    began = time.monotonic()
    ours = Headrace(place / "ours", place / "ours" / "log", **_settings(), broker_id=1)
    theirs = Kafka4(place / "kafka", place / "kafka" / "log", **_settings())
    same = differs = left_out = known = 0
    with ours, theirs, ThreadPoolExecutor(2) as pool:
        sides = [Side(ours, place / "ours" / "tools"), Side(theirs, place / "kafka" / "tools")]
        for step in (step for name in wanted for step in SECTIONS[name]()):
            if not served.issuperset(step.needs):
                left_out += 1
                print(f"  left out  {step.name}: its APIs are not served", flush=True)
                continue
            wrong = judge(step, sides, pool)
            if not wrong:
                same += 1
                print(f"  same      {step.name}", flush=True)
            elif step.known:
                known += 1
                print(f"  known     {step.name}: {step.known}", flush=True)
            else:
                differs += 1
                print(f"  DIFFERS   {step.name}", *wrong, sep="\n      ", flush=True)
    seconds = time.monotonic() - began
    print(
        f"Kafka 4.3.1's tools, {same + differs + known} runs on each broker in {seconds:.0f} s:"
        f" {same} the same, {known} known to differ, {differs} differ, {left_out} left out"
    )
    return bool(differs)


def _settings() -> dict[str, object]:
    return {name.replace(".", "_"): value for name, value in SETTINGS.items()}


if __name__ == "__main__":
    sys.exit(main())
