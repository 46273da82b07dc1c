"""How many producers a log remembers, and when those that are silent are forgotten."""

import pytest

from headrace.config.broker import load
from headrace.log.directory.periods import Periods
from headrace.log.producers.producer_states import ProducerStates
from headrace.record.batch import BatchHeader, new_record, parse_header
from headrace.record.batch import build as build_batch
from tests.support.log.log import NOW_MS, World, append, append_marker

DAY_MS = 86_400_000


def header(producer_id: int, *, transactional: bool = False) -> BatchHeader:
    return parse_header(
        build_batch(
            [new_record(b"v", timestamp=NOW_MS)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )


def known(states: ProducerStates) -> list[int]:
    return [entry.producer_id for entry in states.kept.entries()]


@pytest.mark.parametrize("most", [1, 5, 16])
def test_producers_that_wrote_least_recently_make_room_for_new_ones(most: int) -> None:
    states = ProducerStates(most)
    for number in range(most):
        states.update(header(1000 + number), number)
    states.update(header(1000), most)  # the first one has written again
    for number in range(40):
        states.update(header(2000 + number), most + 1 + number)
        assert len(states) == most
    assert known(states) == list(range(2040 - most, 2040))


def test_the_last_writer_is_forgotten_last() -> None:
    states = ProducerStates(3)
    for at, producer_id in enumerate([1, 2, 3, 1, 4]):
        states.update(header(producer_id), at)
    assert known(states) == [1, 3, 4]


def test_many_producers_are_forgotten_a_sixteenth_at_a_time() -> None:
    states = ProducerStates(160)
    for number in range(160):
        states.update(header(number), number)
    assert len(states) == 160
    states.update(header(160), 160)
    assert known(states) == list(range(10, 161))


def test_a_producer_with_an_open_transaction_is_not_forgotten() -> None:
    states = ProducerStates(2)
    for number in range(3):
        states.update(header(number, transactional=True), number)
    assert known(states) == [0, 1, 2], "all have one open: none may go"
    states.update(header(9), 3)
    states.update(header(10), 4)
    assert known(states) == [0, 1, 2, 10]
    assert states.first_unstable_offset() == 0


def test_without_a_bound_all_are_remembered() -> None:
    states = ProducerStates()
    for number in range(500):
        states.update(header(number), number)
    assert len(states) == 500


@pytest.mark.parametrize("clean", [True, False])
def test_the_bound_holds_in_a_log_and_after_a_restart(clean: bool) -> None:
    world = World(periods=Periods(producers_max=5))
    log = world.log()
    for number in range(40):
        append(log, b"v", producer=(1000 + number, 0, 0))
    assert known(log.producers) == [1035, 1036, 1037, 1038, 1039]
    append(log, b"t", producer=(7, 0, 0), transactional=True)
    append_marker(log, 7, commit=True)
    append(log, b"v", producer=(8, 0, 0))
    assert known(log.producers) == [7, 8, 1037, 1038, 1039]
    world.flush(log)
    world.restart(clean=clean)
    assert known(world.log().producers) == [7, 8, 1037, 1038, 1039]
    world.close()


def test_a_transaction_marker_counts_as_a_write_of_its_producer() -> None:
    world = World(periods=Periods(producers_max=3))
    log = world.log()
    append(log, b"t", producer=(1, 0, 0), transactional=True)
    append(log, b"v", producer=(2, 0, 0))
    append(log, b"v", producer=(3, 0, 0))
    append_marker(log, 1, commit=True)
    append(log, b"v", producer=(4, 0, 0))
    assert known(log.producers) == [1, 3, 4]
    world.close()


def test_more_producers_in_a_snapshot_than_the_bound_are_forgotten_by_the_next_write() -> None:
    world = World(periods=Periods(producers_max=50))
    for number in range(50):
        append(world.log(), b"v", producer=(number, 0, 0))
    world.flush(world.log())
    world.periods = Periods(producers_max=5)
    world.restart(clean=True)
    append(world.log(), b"v", producer=(99, 0, 0))
    assert known(world.log().producers) == [46, 47, 48, 49, 99]
    world.close()


def test_silent_producers_are_looked_for_at_their_own_interval() -> None:
    world = World(
        periods=Periods(
            producer_id_expiration_ms=1000, producer_expiry_check_ms=200, retention_check_ms=DAY_MS
        )
    )
    world.directory.start()
    log = world.log()
    append(log, b"v", producer=(1, 0, 0))
    world.clock.advance(0.9)
    world.settle()
    assert known(log.producers) == [1]
    world.clock.advance(0.3)
    world.settle()
    assert known(log.producers) == []
    world.close()


def test_another_expiration_is_followed_at_run_time() -> None:
    world = World(periods=Periods(producer_expiry_check_ms=200))
    world.directory.start()
    append(world.log(), b"v", producer=(1, 0, 0))
    world.directory.reconfigure(Periods(producer_id_expiration_ms=100))
    world.clock.advance(0.3)
    world.settle()
    assert known(world.log().producers) == []
    world.close()


def test_periods_are_those_of_the_settings() -> None:
    assert Periods.of(load()[0])._replace(scrub_bytes_per_second=0) == Periods()
    config, _ = load(
        "log.retention.check.interval.ms=2\nproducer.id.expiration.ms=3\n"
        "log.scrub.bytes.per.second=4\nlog.scrub.interval.ms=5000\n"
        "producer.id.expiration.check.interval.ms=6\nproducers.per.partition.max=7"
    )
    assert Periods.of(config) == Periods(5000, 2, 3, 4, 5000, 6, 7)


@pytest.mark.parametrize(
    "name",
    [
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ],
)
def test_checkpoints_are_written_as_often_as_any_of_them_is_due(name: str) -> None:
    assert Periods.of(load(f"{name}=100")[0]).checkpoint_ms == 100
