"""The reader of `headrace consume`: fetches chunks, through broker restarts and past damage.

An outage of the brokers is noted once. Skipped offsets, and a reset to another offset, are noted
with the offsets.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.cli.records.consume_outage import Outage
from headrace.client.admin import groups
from headrace.client.admin.groups import Committed
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.client.client import Client
from headrace.client.consumer.consumer import Chunk, Consumer
from headrace.client.consumer.damage import (
    OF_DAMAGE,
    DamagePlace,
    file_of,
    next_sound_offset,
    place_of_damage,
)
from headrace.client.consumer.member import Member
from headrace.client.sync import run
from headrace.model.errors import CorruptLogError, ErrorCode, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError, line_of
from headrace.terminal.offset_positions import Place, resolve_places
from headrace.terminal.output import note

_START, _END = Place("time", EARLIEST), Place("time", LATEST)
COMMIT_SECONDS = 5.0
"""Seconds between two commits of a group member."""


class ReadOptions(NamedTuple):
    """The records that a `Reader` fetches, and the group that it joins."""

    place: Place
    partitions: frozenset[int]
    """Partition numbers; empty: all."""
    group: str | None
    read_committed: bool
    skip_damaged: bool
    new_topics: frozenset[str] = frozenset()
    """Topics created since the command began: they are read from their first record."""


class Reader:
    """Fetches chunks of topics, as a member of a group or without one."""

    def __init__(self, client: Client, topics: Sequence[str], options: ReadOptions) -> None:
        self.client = client
        self.topics = topics
        self.options = options
        self.member = Member(client, options.group, topics) if options.group else None
        reset = LATEST if options.place == _END else EARLIEST
        self.consumer = Consumer(client, {}, read_committed=options.read_committed, reset=reset)
        self.consumer.on_reset = _tell_reset
        self._committed_at = time.monotonic()
        self._told: dict[TopicPartition, ErrorCode] = {}
        self._outage = Outage(client)

    def begin(self, outage_seconds: float | None) -> None:
        """Determine the start offsets, or join the group.

        Unreachable brokers are waited for from then on, for `outage_seconds`; None: as long as for
        other errors.
        """
        if self.member is None:
            self.consumer.positions = self._start(self._wanted())
        else:
            self._join(self.member)
        self._outage.await_brokers(outage_seconds)

    def _wanted(self) -> list[TopicPartition]:
        known = run(self.client.leaders(list(self.topics)))
        chosen = self.options.partitions
        wanted = []
        for topic in self.topics:
            there = [partition.partition for partition in known.topics[topic].partitions]
            if missing := sorted(chosen - set(there)):
                raise UsageError(
                    f"--partition {missing[0]}: {topic} has partitions 0 to {max(there)}"
                )
            wanted += [
                TopicPartition(topic, number) for number in there if not chosen or number in chosen
            ]
        return wanted

    def _start(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        place = self.options.place
        is_new = self.options.new_topics.__contains__ if place == _END else lambda topic: False
        new = [partition for partition in partitions if is_new(partition.topic)]
        others = [partition for partition in partitions if not is_new(partition.topic)]
        return {
            **run(resolve_places(self.client, _START, new)),
            **run(resolve_places(self.client, place, others, tell=note)),
        }

    def _join(self, member: Member) -> None:
        """Join the group, and start at its committed offsets, else where the options say."""
        assigned = list(run(member.join()))
        left = run(groups.committed(self.client, member.group, assigned, require_stable=True))
        positions = {
            partition: left[partition].offset for partition in assigned if partition in left
        }
        positions.update(
            self._start([partition for partition in assigned if partition not in positions])
        )
        self.consumer.positions = positions
        self.consumer.high_watermarks.clear()

    def poll(self, printed: dict[TopicPartition, int]) -> list[Chunk]:
        """Fetch the next chunks; as a member also send heartbeats, commit and rejoin."""
        if self.member is not None:
            if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
                self._commit(printed)
            if not run(self.member.heartbeat()):
                self._commit(printed)
                printed.clear()
                self._join(self.member)
        chunks = run(self.consumer.poll())
        self._outage.brokers_answer()
        return chunks

    # partitions that cannot be read

    def look_at_failures(self) -> None:
        """Note each partition that cannot be read, once, with the error; skip damaged records.

        CommandError for damaged records without --skip-damaged.
        """
        failing = dict(self.consumer.failing)
        for partition, code in failing.items():
            if code in OF_DAMAGE and self._told.get(partition) is code:
                # On the second error: a segment deleted by retention during a read causes it once.
                place = run(place_of_damage(self.client, partition))
                if place is not None:
                    offset = self.consumer.positions[partition]
                    self._met_damage(partition, offset, code.name, place)
                    continue
            elif self._told.get(partition) is not code:
                note(
                    f"{partition} cannot be read at offset {self.consumer.positions[partition]}"
                    f" [{code.name}]; retrying for {self.client.retry_seconds:g} s"
                )
        self._told = failing

    def met_damage(self, partition: TopicPartition, offset: int, error: HeadraceError) -> None:
        """Skip damaged records at `offset`; CommandError without --skip-damaged."""
        why = str(error) if isinstance(error, CorruptLogError) else line_of(error)[0]
        self._met_damage(partition, offset, why, run(place_of_damage(self.client, partition)))

    def _met_damage(
        self, partition: TopicPartition, offset: int, why: str, place: DamagePlace | None
    ) -> None:
        where = "" if place is None else f" in {file_of(place, offset)} of broker {place.leader}"
        if not self.options.skip_damaged:
            raise CommandError(
                f"{partition}: the records at offset {offset} are damaged{where} ({why}); restore"
                " the file from a backup, or skip them with --skip-damaged",
                EXIT_FAILED,
            )
        following = run(next_sound_offset(self.client, partition, offset))
        self.consumer.positions[partition] = following
        self.consumer.forget_failure(partition)
        note(f"{partition}: skipped offsets {offset} to {following - 1}, damaged{where}")

    # the end

    def _commit(self, printed: Mapping[TopicPartition, int]) -> None:
        self._committed_at = time.monotonic()
        offsets = {partition: Committed(offset) for partition, offset in printed.items()}
        if self.member is not None and offsets and not run(self.member.commit(offsets)):
            note(
                f"group {self.member.group} has rebalanced: offsets printed since the last commit"
                " are not committed, and are read again"
            )

    def close(self, printed: Mapping[TopicPartition, int]) -> None:
        """Commit the printed offsets and leave the group; does not wait for unreachable brokers.

        ClientError if the offsets could not be committed.
        """
        if self.member is None or not self.member.member_id:
            return
        self._outage.hurry()
        self._commit(printed)
        run(self.member.leave())


def _tell_reset(partition: TopicPartition, gone: int, offset: int) -> None:
    note(f"{partition}: offset {gone} no longer exists; continuing at {offset}")
