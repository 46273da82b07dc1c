"""Fetches that look only at what is ready, against fetches that look at everything.

Two clients ask the same of one broker, request by request. One's sessions look at what has marked
itself, the other's at all their partitions, and after every event besides, whoever was woken.
"""

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.partition import Partition
from headrace.cluster.topics.creation import NewTopic
from headrace.frontends.kafka.connection.dispatch import Dispatcher
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.fetch import fetch as fetch_api
from headrace.frontends.kafka.fetch.wanted_partitions import (
    WantedPartition,
    WantedPartitions,
    in_turn,
)
from headrace.frontends.long_poll import GATHER_SECONDS
from headrace.log.producers.producer_states import Begins
from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.record.batch import Record, build, parse_header
from headrace.testing.clock import SimClock
from headrace.testing.disk import SimDisk
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchResponse, decode_response
from headrace.wire.kafka.primitives import NO_UUID
from tests.support.processes.broker import Room, append, play, room

TOPICS = ("a", "b")
PARTITIONS = 2
PRODUCER = 9
NOW = 1_780_000_000_000
Place = tuple[str, int]
PLACES = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]


class FullLook(WantedPartitions):
    """Looks at everything every time."""

    __slots__ = ()

    def to_look_at(self) -> list[WantedPartition]:
        return in_turn(self.by_key.values())


class Asked(NamedTuple):
    """One request, but for its session."""

    places: list[Place]
    """To add, or to ask anew of."""
    forget: list[Place]
    at: str
    """Where from: what was not seen yet (`next`), the start, the end, or beyond."""
    wait_ms: int
    min_bytes: int
    max_bytes: int
    of_one: int
    isolation: int
    epoch: int
    restart: bool
    end: bool
    replica: bool


@dataclass
class Client:
    """One of the two: its session, and the request under way."""

    shared: Any
    session_id: int = 0
    session_epoch: int = 0
    by_name: dict[int, str] = field(default_factory=dict)
    pending: Pending | None = None

    def wanted(self) -> WantedPartitions | None:
        session = self.shared.fetch_sessions._sessions.get(self.session_id)
        return None if session is None else session.wanted

    def take(self, version: int, parts: Any) -> FetchResponse:
        body = b"".join(bytes(part) for part in parts)
        answer = decode_response(version, memoryview(body))
        if answer.error_code:
            self.session_id = self.session_epoch = 0
        elif answer.session_id:
            self.session_id = answer.session_id
            self.session_epoch += 1
        return answer._replace(session_id=0)


class Pair:
    """Both clients, and what a client knows: where it has read to."""

    def __init__(self, here: Room, version: int) -> None:
        self.here = here
        self.version = version
        self.positions: dict[Place, int] = {}
        self.ids: dict[bytes, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.clients = [self._client(), self._client()]
        self.by_ready, self.by_all = self.clients
        self.answers = 0
        self.late = 0

    def _client(self) -> Client:
        here = self.here
        dispatcher = Dispatcher(
            here.broker, here.coordinators, here.controller, APIS, here.broker.metrics
        )
        return Client(dispatcher.shared)

    def learn_ids(self) -> None:
        for name, topic in self.here.broker.image.topics.items():
            self.ids[topic.topic_id] = name
            self.topic_ids[name] = topic.topic_id

    def ask(self, asked: Asked) -> None:
        """Send the same request twice."""
        answers = [self._send(client, asked) for client in self.clients]
        self.compare(answers)

    def _send(self, client: Client, asked: Asked) -> FetchResponse | None:
        if client.pending is not None and not client.pending.done:
            client.pending.abandon()
        client.pending = None
        if asked.restart and client.session_id:
            client.session_epoch = 0
        epoch = -1 if asked.end else client.session_epoch
        places = asked.places if client.session_epoch > 0 and not asked.end else PLACES
        request = fetch.FetchRequest(
            asked.wait_ms, asked.min_bytes, asked.max_bytes, asked.isolation, client.session_id,
            epoch, self._topics(places, asked), self._forgotten(asked.forget),
            replica_id=1 if asked.replica else -1,
        )  # fmt: skip
        context = self.here.context(ApiKey.FETCH, self.version)
        context.shared = client.shared
        body = memoryview(bytearray(fetch.encode_request(self.version, request)))
        if epoch <= 0:
            client.session_epoch = 0
        answer: Any = fetch_api.handle(context, body)
        wanted = client.wanted()
        if client is self.by_all and wanted is not None:
            wanted.__class__ = FullLook
        if asked.end:
            client.session_id = client.session_epoch = 0
        if isinstance(answer, Pending):
            client.pending = answer
            return None
        return client.take(self.version, answer)

    def _topics(self, places: list[Place], asked: Asked) -> list[fetch.FetchTopic]:
        topics: dict[str, list[fetch.FetchPartition]] = {}
        for place in places:
            partition = self.here.broker.partitions.get(place)
            end = 0 if partition is None else partition.log.end_offset
            starts = {"next": self.positions.get(place, 0), "start": 0, "end": end}
            offset = starts.get(asked.at, 1000)
            topics.setdefault(place[0], []).append(
                fetch.FetchPartition(place[1], asked.epoch, offset, -1, -1, asked.of_one)
            )
        return [
            fetch.FetchTopic(name, self.topic_ids.get(name, NO_UUID), parts)
            for name, parts in topics.items()
        ]

    def _forgotten(self, places: list[Place]) -> list[fetch.ForgottenTopic]:
        return [
            fetch.ForgottenTopic(name, self.topic_ids.get(name, NO_UUID), [index])
            for name, index in places
        ]

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    async def after_event(self) -> None:
        """Whatever the event did is over: both have been answered alike, or both still wait."""
        await self.settle()
        clock: Any = self.here.broker.clock
        clock.advance(2 * GATHER_SECONDS)
        await self.settle()
        wanted = self.by_all.wanted()
        waits = self.by_all.pending is not None and not self.by_all.pending.done
        if wanted is not None and wanted.poll is not None and waits:
            wanted.poll._look()
            await self.settle()
        done = [one.pending is not None and one.pending.done for one in self.clients]
        assert done[0] == done[1]
        if done[0]:
            self.late += 1
            answers: list[FetchResponse | None] = []
            for client in self.clients:
                assert client.pending is not None
                parts = client.pending.parts()
                client.pending = None
                answers.append(client.take(self.version, parts))
            self.compare(answers)

    def compare(self, answers: list[FetchResponse | None]) -> None:
        first, second = answers
        assert first == second
        if first is None:
            return
        self.answers += 1
        for topic in first.topics:
            name = topic.name or self.ids.get(topic.topic_id, "?")
            for partition in topic.partitions:
                self._advance((name, partition.partition), partition)

    def _advance(self, place: Place, partition: FetchedPartition) -> None:
        if partition.records:
            header = parse_header(memoryview(b"".join([cast("bytes", partition.records)])))
            self.positions[place] = header.base_offset + header.last_offset_delta + 1


def _offsets_of(partition: Partition) -> range:
    return range(partition.log.start_offset, partition.high_watermark + 1)


async def happen(here: Room, event: tuple[str, int, int], producers: dict[Place, int]) -> None:
    """One thing that others do."""
    what, which, size = event
    place = PLACES[which % len(PLACES)]
    partition = here.broker.partitions.get(place)
    if what == "delete":
        await here.controller.delete_topics([place[0]])
    elif what == "create" and place[0] not in here.broker.image.topics:
        await here.controller.create_topics([NewTopic(place[0], PARTITIONS, 1)])
    elif what == "cold":
        here.disk.cold = not here.disk.cold
    elif what == "advance":
        clock: Any = here.broker.clock
        assert isinstance(clock, SimClock)
        clock.advance(0.06 * size)
    elif partition is None:
        return
    elif what == "append":
        append(partition, b"x" * 40 * size)
    elif what == "transact":
        sequence = producers.get(place, 0)
        data = build(
            [Record(0, NOW, None, b"t" * size, ())], producer_id=PRODUCER, producer_epoch=0,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        view = memoryview(bytearray(data))
        partition.append(view, parse_header(view), now_ms=NOW, begins=Begins.VERIFIED)
        producers[place] = sequence + 1
    elif what == "decide":
        partition.append_marker(PRODUCER, 0, commit=size % 2 == 0, coordinator_epoch=0, now_ms=NOW)
    elif what == "trim":
        offsets = _offsets_of(partition)
        partition.delete_records(Offset(offsets[size % len(offsets)]))
    if what in ("delete", "create"):
        producers.pop((place[0], 0), None)
        producers.pop((place[0], 1), None)


_places = st.lists(st.sampled_from(PLACES), max_size=2, unique=True)
_asked = st.builds(
    Asked,
    places=_places,
    forget=st.one_of(st.just([]), st.just([]), _places),
    at=st.sampled_from(("next", "next", "next", "next", "start", "end", "beyond")),
    wait_ms=st.sampled_from((0, 100, 500, 500)),
    min_bytes=st.sampled_from((0, 1, 1, 1, 300)),
    max_bytes=st.sampled_from((1 << 20, 1 << 20, 250, 1)),
    of_one=st.sampled_from((1 << 20, 1 << 20, 150, 0)),
    isolation=st.sampled_from((0, 0, 1)),
    epoch=st.sampled_from((-1, -1, -1, -1, -1, 5)),
    restart=st.sampled_from((False,) * 12 + (True,)),
    end=st.sampled_from((False,) * 20 + (True,)),
    replica=st.sampled_from((False,) * 20 + (True,)),
)
_events = st.tuples(
    st.sampled_from(
        ("append",) * 6
        + ("transact", "transact", "decide", "decide", "trim", "delete", "create", "create")
        + ("cold", "advance", "advance")
    ),
    st.integers(0, 3),
    st.integers(1, 9),
)
_steps = st.lists(st.one_of(_asked, _asked, _events, _events), min_size=4, max_size=40)


async def history(version: int, steps: list[Any]) -> Pair:
    with tempfile.TemporaryDirectory() as place:
        async with room(Path(place), SimDisk()) as here:
            await here.controller.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS])
            pair = Pair(here, version)
            producers: dict[Place, int] = {}
            for step in steps:
                pair.learn_ids()
                if step[0] == "cold" and pair.by_all.pending is not None:
                    continue  # nobody is told of that: who waits looks when there is more
                if isinstance(step, Asked):
                    pair.ask(step)
                else:
                    with suppress(ApiError):  # refused: as if it had not been
                        await happen(here, step, producers)
                await pair.after_event()
            return pair


@pytest.mark.parametrize("version", [12, 13])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(steps=_steps)
def test_what_looks_at_the_ready_answers_as_what_looks_at_all(
    version: int, steps: list[Any]
) -> None:
    play(_checked(version, steps))


async def _checked(version: int, steps: list[Any]) -> None:
    await history(version, steps)


def test_the_histories_have_answers_at_once_and_late_ones() -> None:
    """Or the claim above would hold for want of answers."""
    usual = Asked(PLACES, [], "next", 500, 1, 1 << 20, 1 << 20, 0, -1, False, False, False)

    async def story() -> None:
        steps: list[Any] = []
        for turn in range(30):
            steps += [usual, ("append", turn % 4, 2)]
        pair = await history(12, steps)
        assert pair.answers > 10
        assert pair.late > 5

    play(story())
