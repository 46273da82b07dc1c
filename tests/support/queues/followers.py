"""Copies of settled positions: a follower on a simulated disk, and a held transport."""

from collections.abc import Sequence

from headrace.broker.partition import Partition
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.copies.settled_follower import SettledFollower
from headrace.delivery.settled_runs import NO_RUNS
from headrace.delivery.settled_state import (
    NO_FRAME,
    FrameName,
    SettledState,
    encode_frame,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch
from headrace.ports.callbacks import Done
from headrace.queue_stores.log.settled_files import SettledFiles, settled_path
from tests.support.log.log import World, content
from tests.support.queues.log import CONFIG, PLACE

LEADER = BrokerId(0)
FOLLOWER = BrokerId(1)


def frame(number: int, *, epoch: int = 1, start: int = 0, whole: bool = False) -> bytes:
    """A frame of settled positions; `start`: all below is settled."""
    return encode_frame(
        SettledState(epoch, start, start, NO_RUNS, (), 0, 0, 0, False, whole, False, number)
    )


class FollowerKit:
    """A broker that follows a queue's partition and copies its settled positions."""

    def __init__(self, world: World | None = None, *, epoch: int = 1) -> None:
        self.world = world or World(config=CONFIG)
        self.partition = Partition(self.world.log(PLACE), flusher=self.world.directory.flusher)
        self.partition.role.follow(LEADER, LeaderEpoch(epoch))
        self.files = SettledFiles(self.world.disk, self.world.clock)
        self.followed = SettledFollower(self.files, lambda _: self.partition)
        self.path = settled_path(self.partition.log.directory)

    def question(
        self,
        body: bytes = b"",
        *,
        epoch: int = 1,
        follows: FrameName = NO_FRAME,
        last: FrameName = NO_FRAME,
        whole_bytes: int = 0,
        position: int = 0,
        read_from: int = -1,
    ) -> CopyQuestion:
        topic_id = self.partition.topic_id
        return CopyQuestion(
            PLACE, topic_id, epoch, body, follows, last, whole_bytes, position, read_from
        )

    def ask(self, question: CopyQuestion) -> list[CopyAnswer]:
        """Ask; the list has the answer once it is given."""
        told: list[CopyAnswer] = []
        self.followed.answer([question], told.extend)
        return told

    def answer(self, question: CopyQuestion) -> CopyAnswer:
        """Ask, and wait for the answer."""
        told = self.ask(question)
        self.world.settle()
        (answer,) = told
        return answer

    def take_whole(self, body: bytes, last: FrameName, *, epoch: int = 1) -> CopyAnswer:
        """Send a complete frame."""
        return self.answer(self.question(body, epoch=epoch, last=last, whole_bytes=len(body)))

    @property
    def file(self) -> bytes:
        return content(self.world.disk, self.path)


class HeldTransport:
    """Keeps requests until the test answers them. Implements `CopyTransport`."""

    def __init__(self) -> None:
        self.asked: list[
            tuple[BrokerId, Sequence[CopyQuestion], Done[Sequence[CopyAnswer] | ApiError]]
        ] = []

    def ask(
        self,
        broker: BrokerId,
        questions: Sequence[CopyQuestion],
        done: Done[Sequence[CopyAnswer] | ApiError],
    ) -> None:
        self.asked.append((broker, questions, done))

    def accept(self) -> Sequence[CopyQuestion]:
        """Answer the oldest request as a follower that takes all; return its questions."""
        _, questions, done = self.asked.pop(0)
        done([taken(question) for question in questions])
        return questions

    def refuse(self, answer: CopyAnswer | ApiError) -> Sequence[CopyQuestion]:
        """Answer each question of the oldest request with the same; return the questions."""
        _, questions, done = self.asked.pop(0)
        done(answer if isinstance(answer, ApiError) else [answer] * len(questions))
        return questions


def taken(question: CopyQuestion) -> CopyAnswer:
    """Return the answer of a follower that takes a question's frames."""
    end = question.position + len(question.content)
    if question.whole_bytes and end < question.whole_bytes:
        return CopyAnswer(part_end=end)
    return CopyAnswer(last=question.last)


LOST = ApiError(ErrorCode.NETWORK_EXCEPTION)
