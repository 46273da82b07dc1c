"""A pass whose writes fail: which of its answers leave, and which end the connection."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.gathered_writes import GatheredWrites
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.connection.dispatch import Dispatcher, KafkaSession
from headrace.frontends.kafka.connection.registry import APIS
from headrace.model.errors import ErrorCode
from headrace.net.session import CloseConnection
from headrace.ports.disk import Failures
from headrace.record.batch import Record, build
from headrace.security.identity import ANONYMOUS
from headrace.testing.disk import SimDisk
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.broker import Room, play, room
from tests.support.processes.runs import answered

VERSION = 9
FAILED: Failures = [("/data/t-0/00000000000000000000.log", OSError(5, "no"))]


class FailingDisk:
    """A disk that holds a pass's writes back and then fails, at once or (`later`) by a thread."""

    def __init__(self, failures: Failures, *, later: bool = False) -> None:
        self.failures = failures
        self.later = later
        self.told: list[Callable[[Failures], None]] = []

    def begin_gather(self) -> None:
        """Nothing is held: the failure is told all the same."""

    def end_gather(self, later: Callable[[Failures], None]) -> Failures | None:
        """What failed."""
        if not self.later:
            return self.failures
        self.told.append(later)
        return None


def produce(acks: int, *partitions: int) -> memoryview:
    """A request's frame without its length."""
    request = kio_codec.entity_module(ApiKey.PRODUCE, VERSION).request
    data = tuple(
        request.PartitionProduceData(
            index=index, records=build([Record(0, 1_780_000_000_000, None, b"v", ())])
        )
        for index in partitions
    )
    entity = request.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=timedelta(milliseconds=1000),
        topic_data=(request.TopicProduceData(name="t", partition_data=data),),
    )
    return memoryview(bytearray(kio_codec.encode_request(entity, 7, "test")))[4:]


def session_on(here: Room, disk: FailingDisk) -> KafkaSession:
    """A connection whose passes are written by `disk`."""
    writes = GatheredWrites(disk, here.broker.directories)
    dispatcher = Dispatcher(
        here.broker, here.coordinators, here.controller, APIS, here.broker.metrics, writes
    )
    nobody: Any = SimpleNamespace(
        address="127.0.0.1", listener="PLAINTEXT", port=1, principal=ANONYMOUS, waits=False
    )
    return KafkaSession(dispatcher, nobody)


@pytest.mark.parametrize(
    "frames", [[produce(1, 0)], [produce(0, 0)], [produce(-1, 0), produce(1, 0, 1)]]
)
def test_an_answer_that_counts_on_failed_writes_ends_the_connection_instead(
    tmp_path: Path, frames: list[memoryview]
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            session = session_on(here, FailingDisk(FAILED))
            for frame in frames:
                session.frame(memoryview(bytearray(frame)))
            with pytest.raises(CloseConnection, match="could not be written, so none is ack"):
                session.pass_done()
            assert here.broker.directories[0].fenced

    play(story())


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
def test_so_does_one_that_waits_for_no_flush(tmp_path: Path, partitions: tuple[int, ...]) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True, log_flush_on_ack="false") as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            session = session_on(here, FailingDisk(FAILED))
            session.frame(produce(-1, *partitions))
            with pytest.raises(CloseConnection, match="could not be written, so none is ack"):
                session.pass_done()

    play(story())


def test_an_answer_that_waits_for_the_flush_tells_of_the_failed_write(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            session = session_on(here, FailingDisk(FAILED))
            answer = session.frame(produce(-1, 0))
            assert session.pass_done() is None
            body = memoryview(await answered(answer))[8 + 1 :]
            told = kio_codec.decode_response(ApiKey.PRODUCE, VERSION, body)
            code = told.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.KAFKA_STORAGE_ERROR

    play(story())


def test_what_a_pass_promised_is_forgotten_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            disk = FailingDisk([])
            session = session_on(here, disk)
            session.frame(produce(1, 0))
            assert session.pass_done() is None
            disk.failures = FAILED
            assert session.pass_done() is None

    play(story())


@pytest.mark.parametrize("failures", [[], FAILED])
def test_the_answers_of_passes_written_by_a_thread_wait_for_it_pass_by_pass(
    tmp_path: Path, failures: Failures
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            disk = FailingDisk([], later=True)
            session = session_on(here, disk)
            session.frame(produce(1, 0))
            first = session.pass_done()
            second = session.pass_done()  # one that promises nothing
            assert first is not None
            assert second is not None
            told: list[Any] = []
            waiter: Any = SimpleNamespace(answered=lambda: told.append(1), failed=told.append)
            first.wait_in(waiter)
            second.wait_in(waiter)
            disk.told[0](failures)
            assert (first.done, second.done) == (True, False)
            assert [isinstance(one, CloseConnection) for one in told] == (
                [False, True] if failures else [False]
            )
            disk.told[1](failures)
            assert second.done
            assert len(told) == (3 if failures else 2)

    play(story())


@pytest.mark.parametrize("acks", [0, 1])
def test_a_run_that_counts_on_failed_writes_ends_the_connection_too(
    tmp_path: Path, acks: int
) -> None:
    async def story() -> None:
        async with room(tmp_path, SimDisk(), kill=True) as here:
            await here.controller.create_topics([NewTopic("t", 2, 1)])
            here.write("t")
            session = session_on(here, FailingDisk(FAILED))
            frame = bytes(produce(acks, 0))
            sent = memoryview(bytearray((len(frame).to_bytes(4) + frame) * 3))
            run = session.run(sent, 0, len(sent))
            assert run is not None
            assert run.frames == 3
            with pytest.raises(CloseConnection, match="could not be written"):
                session.pass_done()

    play(story())
