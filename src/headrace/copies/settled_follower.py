"""`SettledFollower`: a broker answers leaders' questions about copies of settled positions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.copies.followed_file import FollowedFile
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.model.errors import ErrorCode
from headrace.model.nouns import NO_EPOCH, TopicPartition
from headrace.ports.callbacks import Done, gather
from headrace.queue_stores.log.settled_files import SettledFiles

if TYPE_CHECKING:
    from headrace.broker.partition import Partition


class SettledFollower:
    """The files of settled positions of the queues that a broker follows."""

    def __init__(
        self, files: SettledFiles, partition_of: "Callable[[TopicPartition], Partition | None]"
    ) -> None:
        """Create without files. `partition_of` returns a partition of this broker."""
        self._files = files
        self._partition_of = partition_of
        self._followed: dict[TopicPartition, FollowedFile] = {}
        self._known: dict[tuple[bytes, int], int] = {}
        """The latest leader epochs that leaders have named, by topic id and partition."""

    def answer(self, questions: Sequence[CopyQuestion], done: Done[Sequence[CopyAnswer]]) -> None:
        """Call `done` with an answer to each question, once all frames are durable."""

        def answered(answers: dict[int, CopyAnswer]) -> None:
            done([answers[number] for number in range(len(questions))])

        heard = gather(len(questions), answered)
        for number, question in enumerate(questions):
            self._ask(question, partial(heard, number))

    def stop(self, partition: "Partition") -> None:
        """Stop writing frames of another leader: this broker leads or deletes the partition."""
        file = self._followed.pop(partition.topic_partition, None)
        if file is not None:
            file.stop()

    def _ask(self, question: CopyQuestion, done: Done[CopyAnswer]) -> None:
        place = question.partition
        partition = self._partition_of(place)
        if partition is None or partition.topic_id != question.topic_id:
            done(CopyAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        key = question.topic_id, place.partition
        known = max(self._known.get(key, NO_EPOCH), partition.leader_epoch)
        if question.leader_epoch < known:
            done(CopyAnswer(ErrorCode.FENCED_LEADER_EPOCH))
            return
        self._known[key] = question.leader_epoch
        if partition.role.follower is None:
            done(CopyAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        file = self._followed.get(place)
        if file is not None and file.partition is not partition:
            file.stop()  # of a deleted topic of that name
            file = None
        if file is None:
            file = self._followed[place] = FollowedFile(partition, self._files)
        file.ask(question, done)
