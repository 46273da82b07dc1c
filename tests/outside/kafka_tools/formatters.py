"""The coordinators' records as Kafka's formatters print them and as `headrace consume` does.

Both read the same broker: what they print must be the same, byte for byte.
"""

import difflib
import json
import subprocess
import sys
from functools import partial

from tests.outside.kafka_reads_our_files import dumps
from tests.outside.kafka_reads_our_files.jvm import kafka_dump
from tests.outside.kafka_tools.step import CONSUMER, TOOLS, Side, Step

SECONDS_MAX = 60
_READER = '"group":"formatter-reader"'
"""Kafka's consumer is in a group while it reads, and what that leaves only the later one sees."""
_FORMATTERS = {
    "offsets": ("__consumer_offsets", "OffsetsMessageFormatter"),
    "group-metadata": ("__consumer_offsets", "GroupMetadataMessageFormatter"),
    "share-groups": ("__consumer_offsets", "ShareGroupMessageFormatter"),
    "transactions": ("__transaction_state", "TransactionLogMessageFormatter"),
    "share-state": ("__share_group_state", "group.share.ShareGroupStateMessageFormatter"),
}


def formatters() -> list[Step]:
    """Each formatter, on both brokers; steps before have filled the topics."""
    return [
        Step(f"formatter {name}, and Kafka's {kafkas.rpartition('.')[2]}",
             check=partial(_compared, name, topic, kafkas))
        for name, (topic, kafkas) in _FORMATTERS.items()
    ] + [
        Step("log dump of the coordinators' topics, and Kafka's DumpLogSegments", check=_dumped)
    ]  # fmt: skip


def _dumped(side: Side) -> list[str]:
    """Every record of the coordinators' logs, as both tools print it."""
    wrong = []
    for topic, flag in dumps.INTERNAL.items():
        paths = side.broker.log.glob(f"{topic}-*/*.log")
        files = sorted(str(one.relative_to(side.broker.log)) for one in paths)
        theirs = kafka_dump(files, [flag], side.broker.log)
        ours = dumps.headrace_dump(files, [flag], side.broker.log)
        if b"payload" not in theirs.out:
            wrong.append(f"{side.broker.name}: {topic}: nothing to compare")
        kafkas, mine = theirs.out.decode().splitlines(), ours.out.decode().splitlines()
        differences = difflib.unified_diff(kafkas, mine, lineterm="", n=0)
        wrong += [f"{side.broker.name}: {topic}: {line}" for line in differences]
    return wrong


def _compared(name: str, topic: str, kafkas: str, side: Side) -> list[str]:
    theirs = _documents(_kafkas(side, topic, kafkas))
    ours = [one for one in sorted(_ours(side, topic, name).splitlines()) if _READER not in one]
    wrong = [] if theirs else [f"{side.broker.name}: nothing to compare"]
    wrong += [f"{side.broker.name}: Kafka's only: {one}" for one in theirs if one not in ours]
    wrong += [f"{side.broker.name}: ours only: {one}" for one in ours if one not in theirs]
    if not wrong and ours != theirs:
        wrong.append(f"{side.broker.name}: {len(theirs)} records, we print {len(ours)}")
    return wrong


def _documents(text: str) -> list[str]:
    """The JSON documents that follow each other without anything between them, sorted."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        _, end = decoder.raw_decode(text, at)
        if _READER not in text[at:end]:
            found.append(text[at:end])
        at = end
    return sorted(found)


def _kafkas(side: Side, topic: str, kafkas: str) -> str:
    words = (
        f"--topic {topic} --from-beginning --timeout-ms 6000 --bootstrap-server {{broker}}"
        " --group formatter-reader --command-property enable.auto.commit=false"
        f" --formatter {TOOLS}.consumer.{kafkas}"
    )
    return _said(side, side.command(CONSUMER, words))


def _ours(side: Side, topic: str, name: str) -> str:
    command = [sys.executable, "-m", "headrace.cli.main", "consume", topic]
    options = ["-b", side.broker.bootstrap, "-o", "start", "-e", "--formatter", name]
    return _said(side, [*command, *options])


def _said(side: Side, command: list[str]) -> str:
    """Standard output; Kafka's consumer ends with an error when nothing comes any more."""
    done = subprocess.run(
        command,
        cwd=side.place,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{command}: {done.stderr[-2000:]}")
    return done.stdout
