"""`headrace trace --follow`: print changes of partitions in a running cluster, line by line."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.client.admin import replicas
from headrace.client.calls.metadata import PartitionMetadata
from headrace.client.calls.offsets import LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import line_of
from headrace.terminal.output import note, print_json, print_line
from headrace.terminal.partition_choice import check_topic, listed


class PartitionState(NamedTuple):
    """A partition's leader, ISR and offsets, as last seen."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    high_watermark: int | None
    """The leader's high watermark; None: unknown so far."""
    log_end: int | None
    """The leader's log end offset (LEO); None: unknown so far."""
    lags: Mapping[int, int]
    """By replica that answers: committed records that it lacks."""

    def as_words(self) -> str:
        """Return a partition's leader, ISR and offsets as one line."""
        leader = "nobody leads" if self.leader < 0 else f"leader {self.leader}"
        mark, end = ("-" if at is None else at for at in (self.high_watermark, self.log_end))
        lags = ",".join(f"{broker}={lag}" for broker, lag in self.lags.items()) or "-"
        return (
            f"{leader}  epoch {self.epoch}  ISR {listed(self.isr)}  HW {mark}  LEO {end}"
            f"  lag {lags}"
        )


def follow_topics(client: Client, names: Sequence[str], interval: float, *, json: bool) -> None:
    """Print a line for each change of these topics' partitions, until interrupted.

    Raises CommandError.
    """
    known = run(client.metadata())
    for name in names:
        check_topic(known, name)
    client.retry_seconds = interval
    seen: dict[TopicPartition, PartitionState] = {}
    while True:
        try:
            found = _look(client, names, seen)
        except HeadraceError as error:
            note(f"headrace: {line_of(error)[0]}")
            found = {}
        for partition, state in found.items():
            before = seen.get(partition)
            if before != state:
                _tell(partition, state, list(changes(before, state)), json=json)
        seen |= found
        sys.stdout.flush()
        time.sleep(interval)


def _look(
    client: Client, names: Sequence[str], seen: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, PartitionState]:
    """Return the partitions' states; what gets no answer stays as in `seen`.

    Raises ClientError or ApiError.
    """
    known = run(client.metadata(list(names)))
    epochs = {
        TopicPartition(name, partition.partition): partition.leader_epoch
        for name in names
        for partition in known.topics[name].partitions
        if partition.leader >= 0
    }
    marks: dict[TopicPartition, int] = {}
    with suppress(ClientError, ApiError):
        offsets = run(list_offsets(client, dict.fromkeys(epochs, LATEST)))
        marks = {partition: found.offset for partition, found in offsets.items()}
    ends: dict[TopicPartition, int] = {}
    lags: dict[int, Mapping[TopicPartition, int]] = {}
    for broker in sorted(known.brokers):
        led = {at: epoch for at, epoch in epochs.items() if known.leader(*at) == broker}
        with suppress(ClientError, ApiError):
            ends |= run(replicas.log_ends(client, broker, led)) if led else {}
            logs = run(replicas.log_dirs(client, broker))
            lags[broker] = {partition: log.lag for partition, log in logs.items()}
    return {
        partition: _state(partition, found, marks, ends, lags, seen.get(partition))
        for name in names
        for found in known.topics[name].partitions
        for partition in (TopicPartition(name, found.partition),)
    }


def _state(
    partition: TopicPartition,
    found: PartitionMetadata,
    marks: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    lags: Mapping[int, Mapping[TopicPartition, int]],
    before: PartitionState | None,
) -> PartitionState:
    mark, end = (before.high_watermark, before.log_end) if before else (None, None)
    return PartitionState(
        found.leader,
        found.leader_epoch,
        tuple(found.isr),
        marks.get(partition, mark),
        ends.get(partition, end),
        {
            broker: lags[broker][partition]
            for broker in found.replicas
            if partition in lags.get(broker, {})
        },
    )


def changes(before: PartitionState | None, after: PartitionState) -> Iterator[str]:
    """Yield a partition's changes in words."""
    if before is None:
        return
    if (before.leader, before.epoch) != (after.leader, after.epoch):
        yield "nobody leads" if after.leader < 0 else f"{after.leader} becomes leader"
    gone, come = sorted({*before.isr} - {*after.isr}), sorted({*after.isr} - {*before.isr})
    if gone:
        yield f"ISR shrinks by {listed(gone)}"
    if come:
        yield f"ISR grows by {listed(come)}"
    for what, old, new in (
        ("HW", before.high_watermark, after.high_watermark),
        ("LEO", before.log_end, after.log_end),
    ):
        if old is not None and new is not None and old != new:
            yield f"{what} {'moves' if new > old else 'goes back'} by {abs(new - old)}"
    for broker in sorted(before.lags.keys() - after.lags.keys()):
        yield f"{broker} does not answer"
    for broker in sorted(after.lags.keys() - before.lags.keys()):
        yield f"{broker} answers again"


def _tell(
    partition: TopicPartition, state: PartitionState, words: Sequence[str], *, json: bool
) -> None:
    now = time.time()
    if json:
        print_json(
            {
                "timestamp": int(now * 1000),
                "topic": partition.topic,
                "partition": partition.partition,
                "leader": state.leader if state.leader >= 0 else None,
                "leader_epoch": state.epoch,
                "isr": list(state.isr),
                "high_watermark": state.high_watermark,
                "end_offset": state.log_end,
                "lags": [{"broker": broker, "lag": lag} for broker, lag in state.lags.items()],
                "events": list(words),
            }
        )
        return
    clock = time.strftime("%H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03}"
    line = f"{clock}  {partition}  {state.as_words()}"
    print_line(f"{line}  {'; '.join(words)}".rstrip())
