"""OffsetCommits answered in runs, against the same requests decoded one by one.

Answers, counters, the records in `__consumer_offsets` and the offsets that count are the same.
"""

import asyncio
import struct
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cluster.topics.creation import NewTopic
from headrace.coordination.groups.messages import JoinAnswer, JoinRequest, SyncRequest
from headrace.frontends.kafka.groups import offset_commit as commit_api
from headrace.frontends.kafka.groups.offset_commit_pattern import PLACES_MAX
from headrace.frontends.kafka.groups.offset_commit_run import FRAMES_MAX, RUN_BYTES_MAX
from headrace.model.errors import ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC
from headrace.record.batch import iterate, records, size_of
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.frame import request_head
from headrace.wire.kafka.hot import offset_commit as codec
from tests.support.examples import examples
from tests.support.net.served import served
from tests.support.processes import runs
from tests.support.processes.broker import Room, play, room, until
from tests.support.processes.runs import Outcome, answered, serve, session_of

TOPICS = ("a", "b")
PARTITIONS = 3
VERSIONS = range(2, 11)
UNKNOWN = "nowhere"
MEMBER_OF = "members"
"""The group that has a member; others have none."""


@dataclass(frozen=True)
class Commit:
    """One request."""

    group: str = "g"
    generation: int = -1
    offset: int = 0
    places: tuple[tuple[str, int], ...] = (("a", 0),)
    metadata: str | None = ""
    epoch: int = -1
    version: int = 7
    client: str = "c"
    retention_ms: int = -1


_places = st.sampled_from((
    (("a", 0),), (("a", 0),), (("a", 1), ("b", 2)), (("a", 0), ("a", 1), ("a", 2)),
    (("a", 0), ("a", 0)), ((UNKNOWN, 0),), (("a", PARTITIONS),), (),
))  # fmt: skip
_shapes = st.builds(
    Commit,
    group=st.sampled_from(("g", "g", "h", MEMBER_OF, "")),
    generation=st.sampled_from((-1, -1, 0, 1, 2)),
    places=_places,
    metadata=st.sampled_from(("", "", None, "note", "x" * 5000)),
    version=st.sampled_from(VERSIONS),
    client=st.sampled_from(("c", "c", "", "other")),
    retention_ms=st.sampled_from((-1, -1, 1000)),
)
_positions = st.tuples(st.integers(0, 1 << 62), st.integers(-1, 9))
_stretches = st.lists(
    st.tuples(_shapes, st.lists(_positions, max_size=9)), max_size=5
).map(lambda found: [
    replace(shape, offset=offset, epoch=epoch) for shape, each in found for offset, epoch in each
])  # fmt: skip


def request_of(one: Commit, ids: dict[str, bytes], member: str) -> codec.OffsetCommitRequest:
    topics: dict[str, list[codec.PartitionRequest]] = {}
    for number, (name, index) in enumerate(one.places):
        part = codec.PartitionRequest(index, one.offset + number, one.epoch, one.metadata)
        topics.setdefault(name, []).append(part)
    asked = [codec.TopicRequest(name, ids.get(name, b"?" * 16), topics[name]) for name in topics]
    who = member if one.group == MEMBER_OF else ""
    return codec.OffsetCommitRequest(one.group, one.generation, who, asked, None, one.retention_ms)


def frames(commits: list[Commit], ids: dict[str, bytes], member: str) -> bytes:
    out = bytearray()
    for number, one in enumerate(commits):
        body = codec.encode_request(one.version, request_of(one, ids, member))
        head = request_head(ApiKey.OFFSET_COMMIT, one.version, number, one.client, len(body))
        out += head + body
    return bytes(out)


async def join(here: Room) -> str:
    """A member of `MEMBER_OF`, in generation 1."""
    joined: list[JoinAnswer] = []
    ask = JoinRequest(
        MEMBER_OF, "", "static", "c", "/127.0.0.1", 30_000, 30_000, "consumer", (("range", b""),)
    )
    here.coordinators.groups.join(ask, joined.append)
    await until(lambda: joined)
    (answer,) = joined
    synced: list[Any] = []
    sync = SyncRequest(MEMBER_OF, answer.generation, answer.member_id)
    here.coordinators.groups.sync(sync, synced.append)
    await until(lambda: synced)
    return answer.member_id


async def play_one(commits: list[Commit], in_runs: bool, fault: bool = False) -> Outcome:
    disk = SimDisk()
    with tempfile.TemporaryDirectory() as place:
        config: dict[str, Any] = {
            "offsets_topic_num_partitions": "2",
            "group_initial_rebalance_delay_ms": "0",
        }
        async with room(Path(place), disk, kill=True, **config) as here:
            await here.controller.create_topics([NewTopic(name, PARTITIONS) for name in TOPICS])
            await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
            image = here.broker.image
            ids = {name: image.topics[name].topic_id for name in TOPICS}
            member = await join(here)
            if fault:
                disk.fail_writes()
            before = ends(here)
            sent = frames(commits, ids, member)
            outcome = await serve(here, served(commit_api), sent, ids, in_runs)
            stats = here.broker.metrics.api(ApiKey.OFFSET_COMMIT)
            outcome.state += [
                stats.requests, stats.bytes_in, stats.bytes_out, stats.errors, stats.latency.count
            ]  # fmt: skip
            for index, start in enumerate(before):
                found = here.broker.partition(OFFSETS_TOPIC, index).log.read_from_disk(
                    start, 1 << 24, below=ends(here)[index]
                )
                for at, header in iterate(found.data):
                    outcome.batches += 1
                    whole_batch = memoryview(found.data)[at : at + size_of(header)]
                    outcome.state += list(records(whole_batch))
            for group in ("g", "h", MEMBER_OF, ""):
                outcome.state.append(
                    (group, here.coordinators.groups.offsets(group) if not fault else 0)
                )
            return outcome


def ends(here: Room) -> list[Any]:
    return [here.broker.partition(OFFSETS_TOPIC, at).log.end_offset for at in range(2)]


async def same(commits: list[Commit], fault: bool = False) -> Outcome:
    return await runs.same(lambda in_runs: play_one(commits, in_runs, fault))


def alike(count: int, **given: Any) -> list[Commit]:
    return [Commit(offset=7 * at, epoch=at % 3, **given) for at in range(count)]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(_stretches)
def test_a_stream_leads_to_the_same_in_runs_as_one_by_one(commits: list[Commit]) -> None:
    async def story() -> None:
        await same(commits)

    play(story())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("places", [(("a", 0),), (("a", 1), ("b", 2), ("b", 0))])
def test_like_requests_are_one_run(version: int, places: tuple[tuple[str, int], ...]) -> None:
    async def story() -> None:
        outcome = await same(alike(40, version=version, places=places, metadata="note"))
        assert outcome.runs == 1  # the first is learned from, all others are alike
        assert outcome.batches == 1

    play(story())


@pytest.mark.parametrize(
    ("generation", "code"), [(1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION)]
)
def test_every_request_of_a_run_is_answered_as_its_member_may_commit(
    generation: int, code: ErrorCode
) -> None:
    async def story() -> None:
        outcome = await same(alike(20, group=MEMBER_OF, generation=generation))
        assert outcome.runs == 1
        assert outcome.answers.count(b"\x01a" + struct.pack(">iih", 1, 0, code)) == 20

    play(story())


def test_a_run_ends_before_what_is_not_like_it() -> None:
    async def story() -> None:
        for odd in (
            Commit(group="h"), Commit(metadata="x"), Commit(client="d"), Commit(version=6),
            Commit(places=(("a", 2),)), Commit(generation=4), Commit(places=((UNKNOWN, 0),)),
        ):  # fmt: skip
            commits = alike(20)
            commits[10] = odd
            outcome = await same(commits)
            assert outcome.runs == 2, odd

    play(story())


def test_a_failed_append_fails_every_commit_in_it() -> None:
    async def story() -> None:
        outcome = await same(alike(20), fault=True)
        refused = b"\x01a" + struct.pack(">iih", 1, 0, ErrorCode.NOT_COORDINATOR)
        assert outcome.answers.count(refused) == 20

    play(story())


def test_a_run_is_bounded_by_requests_and_by_what_its_records_take() -> None:
    async def story() -> None:
        many = await same(alike(1 + 2 * FRAMES_MAX))
        assert many.runs == 2
        long = await same(alike(120, metadata="m" * 4000))
        assert long.runs >= 120 * 4000 // RUN_BYTES_MAX

    play(story())


def test_nothing_is_learned_that_would_take_a_connection_much_memory() -> None:
    async def story() -> None:
        shapes: tuple[dict[str, Any], ...] = (
            {"metadata": "m" * 3000, "places": (("a", 0), ("a", 1), ("a", 2))},
            {"group": "g" * 12_000, "places": (("a", 0), ("a", 1), ("a", 2))},
            {"places": (("a", 0),) * (PLACES_MAX + 1)},
        )
        for large in shapes:
            outcome = await same(alike(4, **large))
            assert outcome.runs == 0, large

    play(story())


def test_what_was_learned_is_void_when_the_topic_is_gone() -> None:
    async def story() -> None:
        disk = SimDisk()
        with tempfile.TemporaryDirectory() as place:
            async with room(Path(place), disk, kill=True) as here:
                await here.controller.create_topics([NewTopic("a", 1)])
                await here.controller.ensure_internal_topic(OFFSETS_TOPIC)
                dispatcher, session = session_of(here, served(commit_api))
                sent = memoryview(bytearray(frames(alike(1), {}, "")))
                thrice = memoryview(bytearray(bytes(sent) * 3))
                body = await answered(session.frame(sent[4:]))
                assert body.endswith(struct.pack(">h", ErrorCode.NONE))
                run = session.run(thrice, 0, len(thrice))
                assert run is not None, "the first one was learned from"
                await answered(run[2])
                await here.controller.delete_topics(["a"])
                answer = session.frame(sent[4:])
                assert isinstance(answer, bytes)
                gone = struct.pack(">h", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                assert answer.endswith(gone)
                assert session.run(thrice, 0, len(thrice)) is None
                await dispatcher.stop()
                await asyncio.sleep(0)

    play(story())
