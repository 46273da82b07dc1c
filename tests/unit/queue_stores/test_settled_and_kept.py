"""A queue that keeps what is settled: its log's retention lets go of that, and of nothing else."""

from dataclasses import replace

import pytest

from headrace.queue_stores.log.message_reader import MessageReader
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import NOW_MS, batch_of, values
from tests.support.queues.log import CONFIG, LogQueue

DAY_MS = 86_400_000
COUNT = 60
LARGE = 500
KEPT = replace(CONFIG, retention_ms=7 * DAY_MS, message_timestamp_type="LogAppendTime")
"""As `queue_topics.topic_config` has it."""


def kept(**settings: int) -> LogQueue:
    """A queue that keeps what is settled for seven days."""
    config = replace(KEPT, **settings)  # type: ignore[arg-type]
    return LogQueue(keeps_settled=True, config=config)


def body(number: int) -> str:
    return f"{number:0{LARGE}}"


def filled(here: LogQueue, count: int = COUNT) -> LogQueue:
    for number in range(count):
        here.published(body(number))
    assert len(here.gets()) == count
    return here


def retained(here: LogQueue) -> list[int]:
    """What Kafka's readers find, by number, after retention has been looked at."""
    here.world.directory.apply_retention()
    here.settle()
    return [int(value or b"") for value in values(here.partition.log).values()]


def later(here: LogQueue, milliseconds: int) -> None:
    here.world.clock.advance(milliseconds / 1000)
    here.settle()


def test_what_is_settled_is_there_for_so_long_and_then_it_goes() -> None:
    here = filled(kept())
    here.acknowledge(*range(1, COUNT + 1))
    here.wait()
    assert retained(here) == list(range(COUNT))
    later(here, 7 * DAY_MS - 1000)
    assert retained(here) == list(range(COUNT))
    later(here, 2000)
    assert retained(here) == []
    assert here.killed().gets() == []


@pytest.mark.parametrize("held", [0, 30, COUNT - 1])
def test_what_is_not_settled_stays_however_old_and_keeps_its_own_segment_alone(held: int) -> None:
    here = filled(kept())
    before = [segment.base_offset for segment in here.partition.log.segments]
    here.acknowledge(*(tag for tag in range(1, COUNT + 1) if tag != held + 1))
    here.wait()
    later(here, 70 * DAY_MS)
    here.published("0")
    assert here.gets() == ["0"]
    found = retained(here)
    base = max(base for base in before if base <= held)
    following = min((at for at in before if at > held), default=COUNT)
    assert found == [*range(base, following), 0]
    again = here.killed()
    assert again.gets() == [f"{body(held)}*", "0*"]


def test_nothing_of_what_waits_goes_by_size_and_of_what_is_settled_as_much_as_is_over() -> None:
    here = LogQueue(
        keeps_settled=True, config=replace(KEPT, retention_ms=-1, retention_bytes=10_000)
    )
    for number in range(COUNT):
        here.published(body(number))
    assert retained(here) == list(range(COUNT))
    here.gets(41)
    here.acknowledge(*(tag for tag in range(2, 42)))
    here.wait()
    segments = here.partition.log.segments
    left = retained(here)
    assert left[0] == 0
    assert set(range(41, COUNT)) <= set(left)
    size = sum(segment.size for segment in segments)
    assert size > 10_000, "what is wanted is more than that"
    assert len(left) < COUNT - 20
    here.acknowledge(1)
    here.gets()
    here.channel.ack(0, multiple=True)
    here.wait()
    retained(here)
    assert 10_000 <= sum(segment.size for segment in segments) < 14_000 + CONFIG.segment_bytes


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_is_kept_and_settled_does_not_come_back_as_ready(end: str) -> None:
    here = filled(kept())
    here.acknowledge(*range(1, COUNT - 4))
    here.wait()
    again = here.stopped() if end == "stopped" else here.killed()
    assert retained(again) == list(range(COUNT))
    assert again.q.ready == 5
    assert again.gets() == [f"{body(number)}*" for number in range(COUNT - 5, COUNT)]
    again.acknowledge(*range(1, 6))
    again.wait()
    once_more = again.stopped() if end == "stopped" else again.killed()
    assert (once_more.q.ready, once_more.gets()) == (0, [])
    assert retained(once_more) == list(range(COUNT))


def test_what_is_purged_is_kept_and_is_not_ready_over_a_kill() -> None:
    here = kept()
    for number in range(COUNT):
        here.published(body(number))
    here.q.purge()
    here.wait()
    again = here.killed()
    assert (again.q.ready, again.gets()) == (0, [])
    assert retained(again) == list(range(COUNT))


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("drops_transient", [False, True])
def test_a_start_reads_nothing_of_what_is_kept_behind_one_that_is_not_settled(
    end: str, drops_transient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = LogQueue(keeps_settled=True, config=KEPT, drops_transient=drops_transient)
    filled(here)
    here.acknowledge(*range(2, COUNT + 1))
    here.wait()
    here.publish("9", persistent=not drops_transient)
    here.wait()
    decoded = MessageReader._decoded
    read: list[int] = []

    def counted(self: MessageReader, result: object, at: int, below: int) -> object:
        read.append(at)
        return decoded(self, result, at, below)  # type: ignore[arg-type]

    monkeypatch.setattr(MessageReader, "_decoded", counted)
    again = here.stopped() if end == "stopped" else here.killed()
    wanted = [f"{body(0)}*"] if drops_transient else [f"{body(0)}*", "9" + "*" * (end == "killed")]
    assert again.q.ready == len(wanted)
    assert again.gets() == wanted
    assert len(read) <= 5
    assert not [at for at in read if 10 <= at < COUNT - 10]


def test_whatever_a_power_cut_leaves_of_it_nothing_settled_comes_back_and_all_young_is_there() -> (
    None
):
    here = filled(kept(), 30)
    held = (0, 20)
    here.acknowledge(*(tag for tag in range(1, 31) if tag - 1 not in held))
    here.wait()
    ops = len(here.world.disk.ops)
    later(here, 8 * DAY_MS)
    here.published("777")
    young = len(here.world.disk.ops)
    found = retained(here)
    assert len(found) < 25
    later(here, 100_000)
    for cut in range(ops, len(here.world.disk.ops) + 1):
        for left in crash_states(here.world.disk, cut, seed=cut, samples=1):
            again = here.after(left)
            got = [each.rstrip("*") for each in again.gets()]
            assert got in ([body(0), body(20)], [body(0), body(20), "777"])
            assert len(got) == 3 or cut < young


def test_records_of_kafkas_producers_are_kept_from_when_the_broker_got_them() -> None:
    here = kept()
    here.produce(batch_of(b"1", timestamp=NOW_MS - 70 * DAY_MS))
    here.produce(batch_of(b"2", timestamp=NOW_MS + 70 * DAY_MS))
    here.settle()
    assert here.gets() == ["1", "2"]
    here.acknowledge(1, 2)
    here.wait()
    assert retained(here) == [1, 2]
    later(here, 7 * DAY_MS + 1000)
    assert retained(here) == []


def test_what_is_durably_settled_is_told_and_can_be_asked_for() -> None:
    here = filled(kept(), 4)
    here.wait()
    assert here.store.settled() == (0, 0)
    here.acknowledge(1, 2, 4)
    assert here.store.settled() == (2, 0)
    here.store.write_settled()
    here.settle()
    assert here.store.settled() == (2, 2)
