"""Replication as it was before Kafka 0.11: truncation to the high watermark, no leader epochs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from headrace.broker.partition import Partition
from headrace.broker.replica import replica_reads
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.replication.followed_partition import FollowedPartition

_NOT_SAID = LeaderEpoch(-1)


@contextmanager
def cut_to_high_watermark() -> Iterator[None]:
    """Make followers truncate their logs to their high watermarks when they begin to follow."""
    begin = FollowedPartition.__init__

    def planted(self: FollowedPartition, *args: Any) -> None:  # noqa: ANN401 - handed on
        begin(self, *args)
        log = self.partition.log
        directory = log.context.events
        if isinstance(directory, LogDirectory) and not log.cutting:
            directory.truncate_logs([(log, log.high_watermark)], lambda _: self.log_readable())

    with patch.object(FollowedPartition, "__init__", planted):
        yield


@contextmanager
def before_leader_epochs() -> Iterator[None]:
    """Also make brokers ignore leader epochs (KIP-101), so that a diverging log is not detected."""
    diverging = replica_reads.diverging

    def planted(
        partition: Partition, offset: Offset, _last_epoch: LeaderEpoch
    ) -> replica_reads.Diverging | None:
        return diverging(partition, offset, _NOT_SAID)

    with ExitStack() as planting:
        planting.enter_context(cut_to_high_watermark())
        planting.enter_context(patch.object(replica_reads, "diverging", planted))
        yield
