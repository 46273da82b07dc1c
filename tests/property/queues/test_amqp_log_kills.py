"""A durable queue against a model, with kills and power cuts anywhere: nothing confirmed is lost.

What was acknowledged, and that was durable, does not come back; what was handed out and does come
back is called redelivered. With `flush_on_ack` off a power cut may lose a tail: then what is left
is a prefix, and what is published in the place of what was lost is delivered.
"""

import random

import pytest

from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.amqp.deliveries import got
from tests.support.examples import examples
from tests.support.log.log import batch_of
from tests.support.queues.log import LogQueue

STEPS = 25
LIVES = 4
SEEDS = range(examples(30))


class Model:
    """What is promised of each message, by its body."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.confirmed: set[str] = set()
        self.handed_out: set[str] = set()
        self.acknowledged: set[str] = set()
        self.gone: set[str] = set()
        """Acknowledged, and that is durable."""


class Life:
    """One life of the queue, and what is done in it."""

    def __init__(self, here: LogQueue, model: Model, draw: random.Random, number: int) -> None:
        self.here = here
        self.model = model
        self.draw = draw
        self.number = number
        self.sent: list[tuple[str, int]] = []
        self.held: dict[int, str] = {}
        self.count = 0

    def step(self) -> None:
        act = self.draw.choice(
            (self.publish, self.publish, self.produce, self.take, self.take, self.ack, self.ack,
             self.back, self.turn, self.wait)
        )  # fmt: skip
        act()

    def _body(self) -> str:
        self.count += 1
        return f"{self.number}-{self.count}" + "x" * self.draw.choice((0, 0, 300))

    def publish(self) -> None:
        for _ in range(self.draw.randint(1, 6)):
            body = self._body()
            self.here.publish(body)
            self.model.published.append(body)
            self.sent.append((body, self.here.store.end))

    def produce(self) -> None:
        self.here.store.write()
        body = self._body()
        self.model.published.append(body)
        self.here.produce(batch_of(body.encode()))
        self.sent.append((body, 1 << 60))

    def take(self) -> None:
        for _ in range(self.draw.randint(1, 8)):
            delivery = got(self.here.q, self.here.channel, self.here.now)
            if delivery is None:
                return
            _, tag, message, redelivered, _ = delivery
            body = message.body.decode()
            assert body not in self.model.gone, "what was settled durably has come back"
            assert redelivered or body not in self.model.handed_out, "it was handed out before"
            self.model.handed_out.add(body)
            self.held[tag] = body

    def ack(self) -> None:
        for tag in self.draw.sample(sorted(self.held), min(len(self.held), 3)):
            self.here.acknowledge(tag)
            self.model.acknowledged.add(self.held.pop(tag))

    def back(self) -> None:
        if self.held:
            tag = self.draw.choice(sorted(self.held))
            self.here.channel.nack(tag)
            del self.held[tag]

    def turn(self) -> None:
        """Let some of what is due happen."""
        self.here.world.clock.turn()
        self.here.world.disk.settle(self.draw.randint(1, 3))
        self._note_confirmed()

    def wait(self) -> None:
        """Let more than a tenth of a second pass."""
        self.here.wait()
        self._note_confirmed()
        self.model.gone |= self.model.acknowledged

    def _note_confirmed(self) -> None:
        upto = self.here.confirmed_upto
        self.model.confirmed |= {body for body, end in self.sent if end <= upto}

    def cut(self) -> SimDisk:
        """What a power cut leaves now."""
        states = crash_states(
            self.here.world.disk, len(self.here.world.disk.ops), self.draw.randint(0, 1 << 30), 3
        )
        return self.draw.choice(list(states))


def play(seed: int, *, flush_on_ack: bool) -> int:
    draw = random.Random(seed)
    model = Model()
    cache = draw.choice((0, 500, 1 << 20))
    here = LogQueue(
        ahead=draw.choice((2, 8, 100)), cache_bytes_max=cache, flush_on_ack=flush_on_ack
    )
    for number in range(LIVES):
        life = Life(here, model, draw, number)
        for _ in range(draw.randint(1, STEPS)):
            life.step()
        how = draw.choice(("kill", "cut", "cut", "stop"))
        if how == "stop":
            life.wait()
            here = here.stopped()
        elif how == "kill":
            here = here.killed()
        else:
            here = here.after(life.cut())
            if not flush_on_ack:
                model = _without_lost_tail(here, model)
        _check_kept(here, model)
    return len(model.published)


def _without_lost_tail(here: LogQueue, before: Model) -> Model:
    """Forget what a power cut took with the log's tail."""
    left = _bodies(here)
    for known in (before.confirmed, before.handed_out, before.acknowledged, before.gone):
        known.intersection_update(left)
    return before


def _bodies(here: LogQueue) -> set[str]:
    """What the log has, settled or not."""
    from headrace.queue_stores.record_messages import messages_in

    log = here.partition.log
    data = log.read_from_disk(
        log.start_offset, 1 << 24, below=log.end_offset, at_least_one=True
    ).data
    return {message.body.decode() for message in messages_in(data, log.start_offset).messages}


def _check_kept(here: LogQueue, model: Model) -> None:
    """Look at all that a queue has, on a copy of it."""
    kept = here.store.kept()
    copy = LogQueue(
        here.world.after_power_cut(here.world.disk.left_by_a_kill()), epoch=here.epoch + 1,
        cache_bytes_max=here.cache_bytes_max,
    )  # fmt: skip
    found = copy.gets()
    bodies = [body.removesuffix("*") for body in found]
    assert len(bodies) == len(set(bodies)) == kept.ready
    assert kept.ready_bytes == sum(map(len, bodies))
    assert not model.gone.intersection(bodies), "what was settled durably has come back"
    assert model.confirmed - model.acknowledged <= set(bodies), "a confirmed message is lost"
    assert [body for body in model.published if body in set(bodies)] == bodies
    for body in found:
        assert body.endswith("*") or body not in model.handed_out
    model.acknowledged.difference_update(bodies)


@pytest.mark.parametrize("flush_on_ack", [True, False], ids=["flushed", "unflushed"])
def test_no_confirmed_message_is_lost_and_none_settled_comes_back(flush_on_ack: bool) -> None:
    published = sum(play(seed, flush_on_ack=flush_on_ack) for seed in SEEDS)
    assert published > 30 * len(SEEDS)
