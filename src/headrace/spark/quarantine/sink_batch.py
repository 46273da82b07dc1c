"""The driver's part of a batch's quarantine, which both sinks use.

collect   before the sink commits: the manifest, whose digest is part of that commit
publish   after it: the manifest that the sink's commit names, once; then the spool goes
"""

import logging
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headrace.spark.batch_counts import write_counts
from headrace.spark.errors import SinkError
from headrace.spark.quarantine.manifest import (
    NOTHING_REFUSED,
    Checked,
    Refusals,
    manifest_path,
    refused_by_topic,
    write_manifest,
)
from headrace.spark.quarantine.names import is_retry_topic
from headrace.spark.quarantine.options import SinkQuarantine
from headrace.spark.quarantine.planned_topics import check_planned_topics
from headrace.spark.quarantine.publish import publish
from headrace.spark.quarantine.record_file import spool_error
from headrace.spark.quarantine.share import RecentRefusals
from headrace.spark.quarantine.spool import BatchRun, Planned
from headrace.spark.source.checkpoint import next_batch, ranges_of_batch

_log = logging.getLogger(__name__)


class CheckedRows(NamedTuple):
    """The checked rows of a batch, as the messages of its writing tasks have them."""

    files: tuple[Path, ...]
    """Files of the records whose rows fail a check."""
    rows: int
    """Number of rows that were checked."""
    checkpoint: str
    """The query's checkpoint."""


NOT_CHECKED = CheckedRows((), 0, "")


def announce(options: SinkQuarantine, query: str, checkpoint: str) -> None:
    """Let the query's tasks know that its sink publishes what they refuse.

    SourceError if batches that the checkpoint has committed were not published: they would be lost.
    """
    try:
        options.spool.check_published(query, next_batch(checkpoint))
        options.spool.announce_sink(query)
    except OSError as error:
        raise spool_error(options.spool.query(query), error) from error


class QuarantinedBatch:
    """The refused records of one batch."""

    def __init__(self, options: SinkQuarantine, query: str, batch: int) -> None:
        self._options = options
        self._query, self._batch = query, batch
        self._directory = options.spool.query(query)
        self._recent = RecentRefusals(self._directory, options.share_max, options.records_min)
        self._topics: tuple[Refusals, ...] = ()

    def collect(self, runs: Collection[str], checked: CheckedRows = NOT_CHECKED) -> int:
        """Write the manifest; return its digest, or NOTHING_REFUSED.

        `runs`, `checked`: of the tasks' messages. TooManyRefusedError if too many records are
        refused, SourceError if the spool cannot be read or written, DataLossError if the topic of
        checked rows was made again.
        """
        if len(runs) != 1:
            raise SinkError(f"batch {self._batch}: its tasks are of {len(runs)} runs, not of one")
        (run,) = runs
        try:
            at = BatchRun(self._query, self._batch, run)
            manifest = write_manifest(self._options.spool, at, checked.files)
        except OSError as error:
            raise spool_error(self._directory, error) from error
        if manifest is None:
            return NOTHING_REFUSED
        names = {found.topic for found in manifest.checked}
        check_planned_topics(self._options, checked.checkpoint, self._batch, names)
        # Records that are replayed were refused before: their share says nothing of the topic.
        decoded = [
            refusals
            for refusals in manifest.topics
            if not is_retry_topic(self._options.pipeline, refusals.topic)
        ]
        self._topics = self._together(decoded, manifest.checked, checked)
        self._recent.check(self._batch, self._topics)
        return manifest.digest

    def _together(
        self, decoded: Sequence[Refusals], found: Sequence[Checked], checked: CheckedRows
    ) -> tuple[Refusals, ...]:
        """Return the refused records by topic, of the source and of checks."""
        topics = {refusals.topic: refusals for refusals in decoded}
        for each in found:
            refusals = topics.get(each.topic) or self._only_checked(each, checked)
            refused = refusals.refused + each.refused
            read = max(refusals.read, refused)
            topics[each.topic] = refusals._replace(refused=refused, read=read)
        return tuple(topics.values())

    def _only_checked(self, found: Checked, checked: CheckedRows) -> Refusals:
        """Return a topic of which the source has refused nothing.

        The number of its records is that of its offsets; in a first batch, whose begin the
        checkpoint does not have, that of the rows.
        """
        ranges = ranges_of_batch(checked.checkpoint, self._batch)
        planned = tuple(
            Planned(partition, begin, end)
            for (topic, partition), begin, end in ranges
            if topic == found.topic and end > begin
        )
        read = sum(end - begin for _, begin, end in planned) or checked.rows
        return Refusals(found.topic, found.first.schema, planned, read, 0, found.first)

    def publish(self, digest: int) -> None:
        """Publish the manifest that the sink's commit names, and empty the spool.

        Repeats have no effect. Raises SinkError.
        """
        if digest != NOTHING_REFUSED:
            publish(self._options, self._query, self._batch, digest)
            self._report(digest)
        try:
            if self._topics:
                self._recent.add(self._batch, self._topics)
            self._sweep()
        except OSError as error:
            _log.warning("%s: cannot delete published records: %s", self._directory, error)

    def _report(self, digest: int) -> None:
        """Write the counts of the manifest that the sink names; lost without harm."""
        if self._options.counts is None:
            return
        path = manifest_path(self._options.spool, self._query, self._batch, digest)
        # Of a batch that was published before, the report exists or was read.
        with suppress(OSError, pa.ArrowInvalid):
            write_counts(self._options.counts, self._batch, refused_by_topic(path))

    def _sweep(self) -> None:
        """Delete files of this batch and of earlier ones: they are published, or of dead runs."""
        if not self._directory.is_dir():
            return
        for path in self._directory.iterdir():
            if _batch_of(path) <= self._batch:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def _batch_of(path: Path) -> float:
    """Return the batch that a file or directory of the spool belongs to; infinity for others."""
    number = path.name.lstrip(".").partition(".")[0]
    return int(number) if number.isdigit() else float("inf")
