"""Our compaction of what real Kafkas wrote and compacted before: nothing live is lost or moved."""

from dataclasses import replace

import pytest

from headrace.config.keys.log import LogKeys
from headrace.log.compaction.cleaner import LogCleaner
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.worker import InlineWorker
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.log import Log
from headrace.model.nouns import TopicPartition
from tests.golden.test_log_golden import BROKERS, CONFIG, batches, disk_of, opened, rows

COMPACT = replace(
    CONFIG,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=86_400_000,
)
KEY, VALUE = 3, 4


def last_of(found: list[list[object]]) -> dict[object, list[object]]:
    """Of each key the last record that is no tombstone, whole."""
    last = {row[KEY]: row for row in found if row[KEY] is not None}
    return {key: row for key, row in last.items() if row[VALUE] is not None}


def compacted(directory: LogDirectory) -> LogCleaner:
    """Roll every log with keys, then compact all that can be."""
    disk, clock = directory.disk, directory.clock
    for log in directory.logs.values():
        if log.segments[-1].size:
            log.roll()
        directory.flusher.flush_soon(log)
    settle(directory)
    for log in directory.logs.values():
        log.high_watermark = log.flushed_offset
    cleaner = LogCleaner(
        [directory],
        clock=clock,
        disk=disk,
        worker=InlineWorker(disk),
        settings=lambda: CleanerSettings(LogKeys(log_cleaner_backoff_ms=10)),
    )
    cleaner.start()
    for _ in range(100):
        settle(directory)
        clock.advance(0.02)  # type: ignore[attr-defined]
    return cleaner


def settle(directory: LogDirectory) -> None:
    while directory.clock.turn() or directory.disk.settle():  # type: ignore[attr-defined]
        pass


def is_keyed(place: TopicPartition) -> bool:
    return place.topic in {"g-compacted", "g-txn", "__consumer_offsets", "__transaction_state"}


def held(log: Log, *, committed: bool) -> list[list[object]]:
    return rows(log, committed=committed)


@pytest.mark.parametrize("broker", BROKERS)
def test_after_our_compaction_the_last_value_of_each_key_is_at_its_offset(broker: str) -> None:
    directory = opened(
        disk_of(broker), f"/{broker}", config_of=lambda at: COMPACT if is_keyed(at) else CONFIG
    )
    keyed = {at: log for at, log in directory.logs.items() if is_keyed(at)}
    before = {at: held(log, committed=True) for at, log in keyed.items()}
    sizes = {at: len(batches(log, log.end_offset)) for at, log in keyed.items()}
    producers = {at: log.producers.kept.entries() for at, log in keyed.items()}
    others = {
        at: held(log, committed=False) for at, log in directory.logs.items() if at not in keyed
    }
    cleaner = compacted(directory)
    assert not cleaner.uncleanable
    assert cleaner.compactions >= 3
    shorter = 0
    for at, log in keyed.items():
        found = held(log, committed=True)
        assert last_of(found) == last_of(before[at]), at
        assert [row for row in found if row not in before[at]] == []
        shorter += len(batches(log, log.end_offset)) < sizes[at]
    assert shorter
    for at, rest in others.items():
        assert held(directory.logs[at], committed=False) == rest
    # What producers are known by is in the log still, without any snapshot.
    for at in keyed:
        for name in directory.disk.list(directory.logs[at].directory):
            if name.endswith(".snapshot"):
                directory.disk.remove(f"{directory.logs[at].directory}/{name}")
    directory.checkpoint()
    settle(directory)
    directory.close(clean=False)
    again = opened(directory.disk, f"/{broker}", config_of=lambda _: COMPACT)  # type: ignore[arg-type]
    assert not again.quarantined
    for at, log in keyed.items():
        reopened = again.logs[at]
        assert held(reopened, committed=True) == held(log, committed=True)
        known = {one.producer_id: one.last_sequence for one in reopened.producers.kept.entries()}
        for one in producers[at]:
            if one.last_sequence >= 0:
                assert known.get(one.producer_id) == one.last_sequence, (at, one)
