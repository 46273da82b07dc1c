"""One task's reading, by answers and a clock of the test's: what is loss, what is waited for."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.client.calls.offsets import EARLIEST
from headrace.client.consumer.damage import DamagePlace
from headrace.client.sync import Fetched, Wanted
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import build, new_record
from headrace.spark.errors import DataLossError, SourceError
from headrace.spark.security import Security
from headrace.spark.source import read
from headrace.spark.source.connections import kept_connections
from headrace.spark.source.options import Fetching
from headrace.spark.source.read import RangePartition, RangeReader
from headrace.wire.kafka.primitives import NO_UUID

LEADER = Address("h", 1)
SECONDS = 0.3


class Broker:
    """Answers in turn as it was told to, the last of them for ever; `FetchConnection`."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *answers: Fetched, pause: float = 0
    ) -> None:
        self.answers = list(answers)
        self.pause = pause
        self.now = 0.0
        self.asked: list[tuple[Wanted, dict[str, Any]]] = []
        self.taken: list[tuple[Any, ...]] = []
        self.given_back = 0
        self.closed = 0
        self.clients: list[dict[str, Any]] = []
        self.earliest, self.latest = 0, 20
        self.topic_id = NO_UUID
        self.address, self.client_id, self.timeout_seconds = LEADER, "c", 1.0
        monkeypatch.setattr(kept_connections, "take", self._take)
        monkeypatch.setattr(kept_connections, "give_back", self._give_back)
        monkeypatch.setattr(RangeReader, "_end_of_log", self._end_of_log)
        monkeypatch.setattr(Security, "client", self._client)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(read, "time", clock)

    def _take(self, *arguments: Any) -> Any:
        self.taken.append(arguments)
        return self

    def _give_back(self, connection: Any, security: Any) -> None:
        assert connection is self
        self.given_back += 1

    def _end_of_log(self, which: int) -> int:
        return self.earliest if which == EARLIEST else self.latest

    def _client(self, *_: Any, **named: Any) -> Any:
        self.clients.append(named)
        return SimpleNamespace(close=self._close, leaders=self._leaders)

    def _close(self) -> None:
        self.closed += 1

    async def _leaders(self, topics: list[str], **_: Any) -> Any:
        return SimpleNamespace(
            brokers={1: LEADER},
            leader=lambda topic, partition: 1,
            topics={"t": SimpleNamespace(topic_id=self.topic_id)},
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def send(self, wanted: Sequence[Wanted], **more: Any) -> None:
        self.asked.append((wanted[0], more))

    def receive(self) -> list[Fetched]:
        self.now += self.pause
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]

    @property
    def offsets(self) -> list[int]:
        """What was asked for."""
        return [wanted.offset for wanted, _ in self.asked]


def task(**more: Any) -> RangePartition:
    usual = RangePartition(
        "127.0.0.1:1", "t", 0, 5, 10, ("offset",), fail_on_data_loss=True,
        fetching=Fetching(poll_timeout_ms=int(SECONDS * 1000)), leader=LEADER,
    )  # fmt: skip
    return replace(usual, **more)


def found(range_: RangePartition) -> list[int]:
    return [
        offset
        for batch in RangeReader(range_).batches()
        for offset in batch.column("offset").to_pylist()
    ]


def answer(data: bytes, high_watermark: int = 20, code: int = 0) -> Fetched:
    return Fetched("t", 0, code, high_watermark, high_watermark, 0, (), memoryview(data))


def batch(base: int, count: int) -> Fetched:
    data = bytearray(build([new_record(b"x")] * count))
    data[:8] = base.to_bytes(8, "big")
    return answer(bytes(data))


NOTHING = answer(b"", high_watermark=10)
NOTHING_YET = answer(b"", high_watermark=9)
OUT_OF_RANGE = answer(b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)


# --- what is asked --------------------------------------------------------------------------------


def test_nothing_is_asked_for_behind_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, batch(5, 3), batch(8, 2))
    assert found(task()) == [5, 6, 7, 8, 9]
    assert broker.offsets == [5, 8]
    assert (broker.given_back, broker.closed) == (1, 1)


@pytest.mark.parametrize("committed", [False, True])
def test_times_are_in_seconds_and_the_isolation_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    broker = Broker(monkeypatch, batch(5, 5))
    fetching = Fetching(request_timeout_ms=7000, poll_timeout_ms=9000, read_committed=committed)
    found(task(fetching=fetching))
    assert broker.taken == [(LEADER, "headrace-spark", 7.0, fetching.security)]
    (client,) = broker.clients
    assert (client["request_timeout_seconds"], client["retry_seconds"]) == (7.0, 9.0)
    assert [more["read_committed"] for _, more in broker.asked] == [committed]


def test_the_topic_is_asked_for_by_the_id_that_its_leader_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, batch(5, 5))
    broker.topic_id = bytes(range(16))
    assert found(task(leader=None)) == [5, 6, 7, 8, 9]
    assert [wanted.topic_id for wanted, _ in broker.asked] == [bytes(range(16))]


def test_brokers_that_tell_no_ids_have_not_made_the_topic_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Broker(monkeypatch, batch(5, 5))
    assert found(task(leader=None, topic_id=bytes(range(16)))) == [5, 6, 7, 8, 9]


def test_a_leader_that_resigns_is_looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, answer(b"", code=ErrorCode.NOT_LEADER_OR_FOLLOWER), batch(5, 5))
    planned = Address("planned", 9)
    assert found(task(leader=planned)) == [5, 6, 7, 8, 9]
    assert [arguments[0] for arguments in broker.taken] == [planned, LEADER]
    assert broker.given_back == 2


@pytest.mark.parametrize(
    ("code", "passes"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False), (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
     (ErrorCode.UNKNOWN_TOPIC_ID, True), (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False)],
)  # fmt: skip
def test_refusal_of_a_whole_fetch_is_asked_again_where_it_may_pass(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, passes: bool
) -> None:
    broker = Broker(monkeypatch, batch(5, 5))
    receive, refusals = broker.receive, [ApiError(code)]

    def refuse_once() -> list[Fetched]:
        if refusals:
            raise refusals.pop()
        return receive()

    monkeypatch.setattr(broker, "receive", refuse_once)
    if passes:
        assert found(task()) == [5, 6, 7, 8, 9]
    else:
        with pytest.raises(SourceError, match=code.name):
            found(task())


# --- what waits -----------------------------------------------------------------------------------


def test_each_batch_that_comes_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [each for at in range(5, 10) for each in (NOTHING_YET, batch(at, 1))]
    broker = Broker(monkeypatch, *answers)
    broker.pause = SECONDS * 0.45
    assert found(task()) == [5, 6, 7, 8, 9]
    assert broker.now > 3 * SECONDS


def test_a_wait_ends_after_the_poll_timeout_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, NOTHING_YET)
    broker.pause = SECONDS / 3
    with pytest.raises(SourceError, match="nothing of offsets 5 to 9 came"):
        found(task())
    assert SECONDS < broker.now <= SECONDS * 1.4


def test_nothing_has_to_come_twice_in_a_row_to_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    Broker(monkeypatch, NOTHING, batch(5, 3), NOTHING, batch(8, 2))
    assert found(task()) == [5, 6, 7, 8, 9]


def test_bytes_that_are_no_whole_batch_are_an_error_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, answer(batch(5, 3).records[:40].tobytes()))
    with pytest.raises(SourceError, match="no whole batch within 40 bytes at offset 5"):
        found(task())
    assert broker.now == 0


def test_a_batch_that_ends_before_the_position_does_not_move_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read._following(batch(2, 2), 5) == 5
    assert read._following(batch(4, 2), 5) == 6
    broker = Broker(monkeypatch, batch(5, 5))
    assert found(task()) == [5, 6, 7, 8, 9]
    assert min(broker.offsets) == 5


# --- what is gone ---------------------------------------------------------------------------------


def test_what_went_amid_a_range_is_loss_though_the_range_began_with_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, batch(5, 2), OUT_OF_RANGE)
    broker.earliest = 9
    with pytest.raises(DataLossError, match="offsets 7 to 8 of t-0 are gone"):
        found(task(from_earliest=True))


def test_a_reading_that_takes_loss_goes_on_where_the_log_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, OUT_OF_RANGE, batch(8, 2))
    broker.earliest = 8
    assert found(task(fail_on_data_loss=False)) == [8, 9]
    assert broker.offsets == [5, 8]


def test_a_log_that_begins_behind_the_range_leaves_it_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, OUT_OF_RANGE)
    broker.earliest = 12
    assert found(task(from_earliest=True)) == []
    with pytest.raises(DataLossError, match="offsets 5 to 9 of t-0 are gone"):
        found(task())


@pytest.mark.parametrize(("earliest", "latest"), [(5, 20), (0, 5)])
def test_an_offset_at_either_end_of_the_log_is_in_it(
    monkeypatch: pytest.MonkeyPatch, earliest: int, latest: int
) -> None:
    broker = Broker(monkeypatch, OUT_OF_RANGE)
    broker.earliest, broker.latest = earliest, latest
    with pytest.raises(SourceError, match="offset 5 is in the log and refused") as refusal:
        found(task())
    assert not isinstance(refusal.value, DataLossError)


def test_a_log_that_ends_before_the_position_is_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, OUT_OF_RANGE)
    broker.latest = 4
    with pytest.raises(DataLossError, match="t-0 ends at 4, before offset 5"):
        found(task())
    assert found(task(fail_on_data_loss=False)) == []


# --- what is damaged ------------------------------------------------------------------------------

DAMAGED = answer(b"", code=ErrorCode.KAFKA_STORAGE_ERROR)


class Damage:
    """Damage in the leader's log directory, and the offset where records are sound again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place: DamagePlace | None = DamagePlace(3, Address("elsewhere", 1), "/data/t-0")
        self.asked = 0
        self.error: ApiError | None = None
        monkeypatch.setattr(read, "place_of_damage", self._place)
        monkeypatch.setattr(read, "next_sound_offset", self._sound)

    async def _place(self, *_: Any) -> DamagePlace | None:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.place

    async def _sound(self, _: Any, partition: Any, offset: int) -> int:
        assert partition == ("t", 0)
        return offset + 2


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE])
def test_damaged_records_end_a_task_with_their_file_offset_and_remedy(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    Damage(monkeypatch)
    broker = Broker(monkeypatch, batch(5, 2), answer(b"", code=code))
    with pytest.raises(
        SourceError,
        match=r"t-0: the records at offset 7 are damaged in /data/t-0 of broker 3 \("
        rf"{code.name}\): restore the file from a copy, or set failOnDataLoss to false",
    ):
        found(task())
    assert broker.now < SECONDS, "long before the poll timeout"


def test_damage_told_once_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    damage = Damage(monkeypatch)
    Broker(monkeypatch, DAMAGED, batch(5, 2), DAMAGED, batch(7, 3))
    assert found(task()) == [5, 6, 7, 8, 9]
    assert damage.asked == 0


def test_query_that_takes_loss_goes_on_behind_damaged_records(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Damage(monkeypatch)
    broker = Broker(monkeypatch, batch(5, 2), DAMAGED, DAMAGED, batch(9, 1))
    assert found(task(fail_on_data_loss=False)) == [5, 6, 9]
    assert broker.offsets[-1] == 9
    assert "offset 7 are damaged in /data/t-0 of broker 3" in caplog.text
    assert "going on at 9" in caplog.text


def test_damage_up_to_the_end_of_the_range_leaves_nothing_to_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Damage(monkeypatch)
    broker = Broker(monkeypatch, batch(5, 4), DAMAGED, DAMAGED)
    assert found(task(fail_on_data_loss=False)) == [5, 6, 7, 8]
    assert max(broker.offsets) == 9


def test_failed_disk_is_waited_for_as_another_leader_may_have_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage = Damage(monkeypatch)
    damage.place = None
    broker = Broker(monkeypatch, DAMAGED)
    with pytest.raises(SourceError, match=r"nothing of offsets 5 to 9 came .* KAFKA_STORAGE_ERROR"):
        found(task())
    assert broker.now > SECONDS


def test_leader_that_does_not_answer_where_its_damage_is_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage = Damage(monkeypatch)
    damage.error = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    Broker(monkeypatch, DAMAGED, DAMAGED, batch(5, 5))
    assert found(task()) == [5, 6, 7, 8, 9]


def test_bytes_that_do_not_decode_are_told_with_their_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    damage = Damage(monkeypatch)
    broken = bytearray(batch(5, 5).records)
    broken[-1] ^= 0xFF
    Broker(monkeypatch, answer(bytes(broken)))
    with pytest.raises(SourceError, match="at offset 5 are damaged in /data/t-0 of broker 3"):
        found(task())
    damage.error = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(SourceError, match=r"at offset 5 are damaged \("):
        found(task())
