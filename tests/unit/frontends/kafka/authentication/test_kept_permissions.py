"""What skips a handler asks who may do what anew when that has changed, and for each who asks."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    Ask,
)
from headrace.frontends.kafka.connection.dispatch import KafkaSession
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.record.batch import Record, build
from headrace.security.authorizer import AllowsAll, Authorizer
from headrace.security.identity import Identity, Principal
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot.fetch_response import decode_response
from tests.support.processes.broker import Room, play, room
from tests.support.processes.runs import answered
from tests.support.security.authorisation import Rules, call, errors, frame_of, open_session

ALICE = Identity("10.0.0.1", "PLAINTEXT", Principal("User", "alice"))
BOB = Identity("10.0.0.2", "PLAINTEXT", Principal("User", "bob"))
SECOND = timedelta(seconds=1)
TOPIC, GROUP, TRANSACTION = 29, 30, 53
FEW: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}
OFFSETS = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    "topics": [
        {
            "name": "t",
            "partitions": [
                {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
            ],
        }
    ],
}


def in_room(tmp_path: Path, test: Callable[[Room], Any]) -> None:
    async def story() -> None:
        # A stop would wait 10 s for the flush of what acks=1 left unflushed.
        async with room(tmp_path, SimDisk(), kill=True, **FEW) as here:
            await here.controller.create_topics([NewTopic("t", 1, 1)])
            here.write("t")
            await test(here)

    play(story())


def batch(**producer: Any) -> bytes:
    return build([Record(0, 1_780_000_000_000, None, b"v", ())], **producer)


def produce(records: bytes, transactional_id: str | None = None) -> dict[str, Any]:
    topic = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    return {
        "transactional_id": transactional_id, "acks": 1, "timeout": SECOND, "topic_data": [topic],
    }  # fmt: skip


def produced(*batches: bytes, transactional_id: str | None = None) -> memoryview:
    """Requests as one read brings them."""
    frames = [frame_of(ApiKey.PRODUCE, 9, produce(one, transactional_id)) for one in batches]
    return memoryview(bytearray(b"".join(frames)))


def end_of(here: Room) -> int:
    return here.broker.partition("t", 0).log.end_offset


def test_a_run_of_produces_made_before_a_refusal_is_not_used_after_it(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        for rules in (AllowsAll(), Rules()):
            here.broker.authorizer = rules
            dispatcher, session = open_session(here, ALICE)
            sent = produced(*[batch()] * 5)
            run = session.run(sent, 0, len(sent))
            assert run is not None
            assert run.frames == 5
            here.broker.authorizer = refusing = Rules(WRITE_TOPIC)
            refusing.version = 9
            before = end_of(here)
            sent = produced(*[batch()] * 5)
            assert session.run(sent, 0, len(sent)) is None
            answer = await call(here, session, ApiKey.PRODUCE, 9, produce(batch()))
            assert errors(answer) == {("responses.partition_responses.error_code", TOPIC)}
            assert end_of(here) == before
            await dispatcher.stop()

    in_room(tmp_path, test)


def test_runs_of_one_who_may_are_no_runs_of_one_who_may_not(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        here.broker.authorizer = Rules(WRITE_TOPIC, to=BOB)
        dispatcher, session = open_session(here, ALICE)
        for identity, frames in ((ALICE, 5), (BOB, None), (ALICE, 5)):
            session.authenticated(identity)
            sent = produced(*[batch()] * 5)
            run = session.run(sent, 0, len(sent))
            assert (None if run is None else run.frames) == frames
        await dispatcher.stop()

    in_room(tmp_path, test)


async def begin(here: Room, session: KafkaSession) -> dict[str, Any]:
    """Open a transaction x in the topic; who writes it."""
    values = {"key_type": 1, "coordinator_keys": ["x"]}
    await call(here, session, ApiKey.FIND_COORDINATOR, 6, values)
    asked = {
        "transactional_id": "x", "transaction_timeout": 60 * SECOND, "producer_id": -1,
        "producer_epoch": -1,
    }  # fmt: skip
    made = await call(here, session, ApiKey.INIT_PRODUCER_ID, 4, asked)
    who = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    first = batch(**who, base_sequence=0, transactional=True)
    assert errors(await call(here, session, ApiKey.PRODUCE, 12, produce(first, "x"))) == set()
    return who


@pytest.mark.parametrize("rules", [AllowsAll(), Rules()])
def test_a_batch_of_a_transaction_without_its_id_is_in_no_run(
    tmp_path: Path, rules: Authorizer
) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        who = await begin(here, session)
        here.broker.authorizer = rules
        plain = produced(batch(), batch())
        learned = session.run(plain, 0, len(plain))
        assert learned is not None
        hidden, next_hidden = (batch(**who, base_sequence=at, transactional=True) for at in (1, 2))
        sent = produced(hidden, next_hidden)
        assert session.run(sent, 0, len(sent)) is None
        answer = await call(here, session, ApiKey.PRODUCE, 9, produce(hidden))
        assert errors(answer) == {("responses.partition_responses.error_code", TRANSACTION)}
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_a_run_of_a_transaction_is_one_of_who_may_write_with_its_id(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        who = await begin(here, session)
        here.broker.authorizer = Rules(WRITE_TRANSACTION, to=BOB)
        for identity, frames in ((BOB, None), (ALICE, 2)):
            session.authenticated(identity)
            parts = [batch(**who, base_sequence=at, transactional=True) for at in (1, 2)]
            sent = produced(*parts, transactional_id="x")
            run = session.run(sent, 0, len(sent))
            assert (None if run is None else run.frames) == frames
        await dispatcher.stop()

    in_room(tmp_path, test)


def refused_commits(tmp_path: Path, ask: Ask, code: int) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        values = {"key_type": 0, "coordinator_keys": ["g"]}
        await call(here, session, ApiKey.FIND_COORDINATOR, 6, values)
        for _ in range(2):  # learned from
            answer = await call(here, session, ApiKey.OFFSET_COMMIT, 9, OFFSETS)
            assert errors(answer) == set()
        sent = memoryview(bytearray(frame_of(ApiKey.OFFSET_COMMIT, 9, OFFSETS) * 3))
        run = session.run(sent, 0, len(sent))
        assert run is not None
        assert run.frames == 3
        here.broker.authorizer = Rules(ask)
        offsets = here.broker.partition("__consumer_offsets", 0).log
        before = offsets.end_offset
        assert session.run(sent, 0, len(sent)) is None
        answer = await call(here, session, ApiKey.OFFSET_COMMIT, 9, OFFSETS)
        assert errors(answer) == {("topics.partitions.error_code", code)}
        assert offsets.end_offset == before
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_commits_known_before_a_refusal_are_not_taken_after_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    refused_commits(tmp_path / "a", READ_GROUP, GROUP)
    refused_commits(tmp_path / "b", READ_TOPIC, TOPIC)


def test_a_kept_metadata_answer_is_for_who_asked_and_for_as_long_as_he_may(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)

        async def seen(identity: Identity) -> list[int]:
            session.authenticated(identity)
            answer = await call(here, session, ApiKey.METADATA, 12, {"topics": None})
            return [int(topic.error_code) for topic in answer.topics if topic.name == "t"]

        assert await seen(ALICE) == [0]
        rules = here.broker.authorizer = Rules(DESCRIBE_TOPIC, to=BOB)
        assert [await seen(ALICE), await seen(BOB), await seen(ALICE)] == [[0], [], [0]]
        elsewhere = ALICE._replace(host="10.0.0.9")
        rules.to = elsewhere
        rules.change(DESCRIBE_TOPIC)
        assert [await seen(ALICE), await seen(elsewhere), await seen(BOB)] == [[0], [], [0]]
        rules.to = ALICE
        rules.change(DESCRIBE_TOPIC)
        assert [await seen(ALICE), await seen(elsewhere)] == [[], [0]]
        await dispatcher.stop()

    in_room(tmp_path, test)


def together(*batches: bytes) -> dict[str, Any]:
    """One request without a transactional id, a batch for each partition."""
    data = [{"index": at, "records": records} for at, records in enumerate(batches)]
    return {**produce(b""), "topic_data": [{"name": "t", "partition_data": data}]}


@pytest.mark.parametrize("rules", [AllowsAll(), Rules()])
@pytest.mark.parametrize("version", [3, 12])
def test_a_batch_of_a_transaction_without_its_id_has_its_whole_request_refused(
    tmp_path: Path, rules: Authorizer, version: int
) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        who = await begin(here, session)
        here.broker.authorizer = rules
        before = end_of(here)
        hidden = batch(**who, base_sequence=1, transactional=True)
        absent = {**produce(hidden), "topic_data": [
            {"name": "absent", "partition_data": [{"index": 0, "records": hidden}]}]}  # fmt: skip
        for request in (produce(hidden), together(batch(), hidden), absent):
            answer = await call(here, session, ApiKey.PRODUCE, version, request)
            (topic,) = answer.responses
            codes = {int(part.error_code) for part in topic.partition_responses}
            assert codes == {TRANSACTION}, request
        assert end_of(here) == before
        await dispatcher.stop()

    in_room(tmp_path, test)


def fetch(here: Room, session_id: int, epoch: int, wait: timedelta) -> dict[str, Any]:
    """Of the topic from its end, in a session."""
    part = {
        "partition": 0, "current_leader_epoch": -1, "partition_max_bytes": 1000,
        "fetch_offset": end_of(here),
    }  # fmt: skip
    topic = {"topic_id": UUID(bytes=here.broker.image.topics["t"].topic_id), "partitions": [part]}
    return {
        "max_bytes": 1000, "min_bytes": 1, "max_wait": wait, "session_id": session_id,
        "session_epoch": epoch, "topics": [topic] if epoch == 0 else [],
    }  # fmt: skip


def test_a_fetch_session_serves_nobody_who_may_not_read_however_quiet_it_is(
    tmp_path: Path,
) -> None:
    async def test(here: Room) -> None:
        no_wait = timedelta(0)
        dispatcher, session = open_session(here, ALICE)
        opened = await call(here, session, ApiKey.FETCH, 17, fetch(here, 0, 0, no_wait))
        assert errors(opened) == set()
        assert opened.session_id
        refused = {("responses.partitions.error_code", TOPIC)}
        here.broker.authorizer = Rules(READ_TOPIC, to=BOB)
        not_his = {("error_code", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)}
        for epoch, identity, found in ((1, ALICE, set()), (2, BOB, not_his), (2, ALICE, set())):
            session.authenticated(identity)
            asked = fetch(here, opened.session_id, epoch, no_wait)
            assert errors(await call(here, session, ApiKey.FETCH, 17, asked)) == found
        here.broker.authorizer.to = None
        here.broker.authorizer.change(READ_TOPIC)
        asked = fetch(here, opened.session_id, 3, no_wait)
        assert errors(await call(here, session, ApiKey.FETCH, 17, asked)) == refused
        await dispatcher.stop()

    in_room(tmp_path, test)


def test_a_fetch_that_waits_gives_nothing_to_who_may_read_no_more(tmp_path: Path) -> None:
    async def test(here: Room) -> None:
        dispatcher, session = open_session(here, ALICE)
        asked = fetch(here, 0, 0, 60 * SECOND)
        frame = memoryview(bytearray(frame_of(ApiKey.FETCH, 17, asked)))
        waiting = session.frame(frame[4:])
        assert isinstance(waiting, Pending)
        assert not waiting.done
        here.broker.authorizer = Rules(READ_TOPIC)
        here.write("t")
        answer = decode_response(17, memoryview(await answered(waiting))[9:])
        (topic,) = answer.topics
        assert [(one.error_code, len(one.records or b"")) for one in topic.partitions] == [
            (TOPIC, 0)
        ]
        await dispatcher.stop()

    in_room(tmp_path, test)
