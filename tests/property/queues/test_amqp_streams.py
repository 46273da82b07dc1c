"""A stream against a model: each reader gets what is committed from his place on, once, in order.

Readers come anywhere and go, acknowledge or not; Kafka's producers write, retention takes, brokers
are killed and stopped. Nobody is given more than he has credit for, and nobody waits at the end.
"""

import random

import pytest

from headrace.queue_stores.log import message_reader
from headrace.queues.engine import stream_readers
from headrace.record.batch import iterate, records
from tests.support.examples import examples
from tests.support.queues.streams import FIRST, NEXT, Reader, Stream, offset

STEPS = 40
LIVES = 3
SEEDS = range(examples(25))
PREFETCHES = (1, 2, 7, 1000)


class Followed:
    """A reader, and what it must have got."""

    def __init__(self, reader: Reader, start: int, prefetch: int) -> None:
        self.reader = reader
        self.start = start
        self.prefetch = prefetch
        self.gone = False

    def check(self) -> None:
        offsets = self.reader.offsets
        assert offsets == sorted(set(offsets)), "once, and in order"
        assert not offsets or offsets[0] >= self.start
        assert len(self.reader.channel.held) <= self.prefetch


class Play:
    """Lives of a stream."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.here = Stream()
        self.bodies: list[str] = []
        """By offset: every record is a message here."""
        self.trimmed = 0
        self.readers: list[Followed] = []

    def step(self) -> None:
        act = self.draw.choice(
            (self.publish, self.publish, self.produce, self.come, self.acknowledge,
             self.acknowledge, self.turn, self.turn, self.leave, self.retain)
        )  # fmt: skip
        act()
        for followed in self.readers:
            followed.check()

    def _more(self) -> list[str]:
        size = self.draw.choice((1, 1, 300))
        begin = len(self.bodies)
        found = [f"{begin + at:0{size}}" for at in range(self.draw.randint(1, 9))]
        self.bodies += found
        return found

    def publish(self) -> None:
        self.here.publish(*self._more())

    def produce(self) -> None:
        self.here.produce(*self._more())

    def come(self) -> None:
        end = len(self.bodies)
        number = self.draw.randint(0, end + 3)
        start, at = self.draw.choice(((FIRST, 0), (NEXT, end), (offset(number), number)))
        prefetch = self.draw.choice(PREFETCHES)
        self.readers.append(Followed(self.here.consume(start, prefetch=prefetch), at, prefetch))

    def acknowledge(self) -> None:
        if self.readers:
            channel = self.draw.choice(self.readers).reader.channel
            if channel.held:
                tag = self.draw.choice(list(channel.held))
                if self.draw.random() < 0.5:
                    channel.nack(tag, multiple=True, requeue=self.draw.random() < 0.5)
                else:
                    channel.ack(tag, multiple=self.draw.random() < 0.5)

    def turn(self) -> None:
        if self.draw.random() < 0.5:
            self.here.world.settle()
        self.here.deliver()

    def leave(self) -> None:
        if self.readers and self.draw.random() < 0.3:
            followed = self.readers.pop(self.draw.randrange(len(self.readers)))
            followed.reader.leave()

    def retain(self) -> None:
        high = self.here.partition.high_watermark
        if high > self.trimmed and self.draw.random() < 0.3:
            self.trimmed = self.here.retain(self.draw.randint(self.trimmed, high))

    def finish(self) -> None:
        """Have all be given, and see that it was."""
        self.here.run()
        while any(followed.reader.channel.held for followed in self.readers):
            for followed in self.readers:
                followed.reader.channel.ack(0, multiple=True)
            self.here.run()
        assert self._logged() == self.bodies[self.trimmed :]
        for followed in self.readers:
            followed.check()
            found = dict(zip(followed.reader.offsets, followed.reader.bodies, strict=True))
            assert all(self.bodies[at] == body for at, body in found.items())
            wanted = range(max(followed.start, self.trimmed), len(self.bodies))
            assert [at for at in wanted if at not in found] == []

    def _logged(self) -> list[str]:
        log = self.here.partition.log
        if log.start_offset == log.end_offset:
            return []
        data = log.read_from_disk(log.start_offset, 1 << 30, below=log.end_offset).data
        found: list[str] = []
        while data:
            for position, header in iterate(data):
                end = position + header.batch_length + 12
                found += [
                    (record.value or b"").decode()
                    for record in records(memoryview(data)[position:end])
                    if record.offset >= log.start_offset
                ]
                following = header.base_offset + header.last_offset_delta + 1
            at = type(log.start_offset)(following)
            if at >= log.end_offset:
                break
            data = log.read_from_disk(at, 1 << 30, below=log.end_offset).data
        return found

    def next_life(self) -> None:
        """End this one, and let its readers go on by number."""
        places = [
            max(followed.reader.offsets[-1] + 1 if followed.reader.given else 0, followed.start)
            for followed in self.readers
        ]
        self.here.run()
        self.here = self.here.stopped() if self.draw.random() < 0.5 else self.here.killed()
        self.readers = [
            Followed(self.here.consume(offset(at), prefetch=5), at, 5) for at in places[:5]
        ]
        self.trimmed = max(self.trimmed, self.here.partition.log.start_offset)


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_get_all_from_their_place_on_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(message_reader, "READ_BYTES", draw.choice((300, 5000)))
    monkeypatch.setattr(stream_readers, "BATCH_MESSAGES_MAX", draw.choice((3, 1000)))
    play = Play(draw)
    for life in range(LIVES):
        if draw.random() < 0.3:
            play.here.logs.windows.bytes_max = 0
        play.here.world.disk.cold = draw.random() < 0.5
        for _ in range(STEPS):
            play.step()
        if life < LIVES - 1:
            play.next_life()
    play.finish()
