"""Replicas that move between this broker's log directories (KIP-113).

The broker copies a log into a directory of its own (`log.directory.future_logs`), piece by piece
and as a follower would, while the partition goes on. Once the copy has nearly all, the log takes
nothing for some milliseconds: the rest is copied, the copy takes its place, and the role goes on in
it. Where anything goes wrong the copy goes, and the log stays where it is.
"""

import logging
from collections import deque
from functools import partial

from headrace.broker.directory_move import DirectoryMove, Holder
from headrace.broker.log_placement import LogPlacement
from headrace.broker.partition import Partition
from headrace.log import file_names
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.model.protocols import reserved_topics

_logger = logging.getLogger(__name__)
COPIED_AT_ONCE = 2
"""So many logs are copied at once; those of other moves begin when these are done."""


class DirectoryMoves:
    """The moves of one broker. All calls on the deciding thread."""

    def __init__(self, broker: Holder, placement: LogPlacement) -> None:
        self._broker = broker
        self._placement = placement
        self._moves: dict[TopicPartition, DirectoryMove] = {}
        self._copying: set[DirectoryMove] = set()
        self._waiting: deque[DirectoryMove] = deque()
        self._closed = False
        broker.closed.append(self._is_gone)
        broker.unfollowed.append(self._is_gone)
        for directory in broker.directories:
            directory.on_failure(self._directory_failed)

    def ask(self, key: TopicPartition, path: str) -> None:
        """Have a partition's log move to the log directory of that path, or be made there.

        Asked for the directory that holds it, a move under way is called off. ApiError:
        LOG_DIR_NOT_FOUND, INVALID_TOPIC_EXCEPTION (the name is too long, or a queue's),
        KAFKA_STORAGE_ERROR (a directory has failed, the log is out of service),
        UNKNOWN_TOPIC_OR_PARTITION; REPLICA_NOT_AVAILABLE where there is no log yet: one that comes
        is made there.
        """
        target = self._directory(path)
        reserved = reserved_topics(key.topic)
        if reserved is not None:
            # What is settled is a file beside its log, written while the log would be copied.
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{key} is {reserved.kept_for}'s, which stays in its log directory",
            )
        if not file_names.future_fits(key):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is too long")
        partition = self._partition(key)
        if partition is None:
            self._placement.ask_for(key, target)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{key} is not held here")
        move = self._moves.get(key)
        if move is not None and move.target is target:
            return
        if move is not None:
            move.call_off("another directory is wanted")
        source = self._placement.directory_of(partition.log)
        if source is None or partition.role.closed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key} is out of service")
        if source is not target:
            self._begin(partition, source, target)

    def _directory(self, path: str) -> LogDirectory:
        """Return a working directory, while all work. ApiError."""
        broker = self._broker
        wanted = path.rstrip("/")
        for directory in broker.directories:
            if wanted in (directory.path, broker.disk.absolute(directory.path)):
                break
        else:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is none of this broker's log.dirs")
        for each in broker.directories:
            # One that has failed may hold a log, or a copy of it, that nobody sees.
            if each.fenced:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{each.path} has failed: nothing moves before its disk is mended",
                )
        return directory

    def _partition(self, key: TopicPartition) -> Partition | None:
        """Return the partition held here; None where there may be one later. ApiError."""
        broker, at = self._broker, (key.topic, key.partition)
        found = broker.partitions.get(at) or broker.followed.get(at)
        if found is None:
            try:
                broker.partition(*at)
            except ApiError as error:
                if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise
        return found

    def _begin(self, partition: Partition, source: LogDirectory, target: LogDirectory) -> None:
        key = partition.topic_partition
        size = source.sizes()[key]
        try:
            free = self._broker.disk.free_bytes(target.path)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{target.path}: {error}") from error
        if size >= free:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{key} has {size} bytes, {target.path} has room for {free}: it stays",
            )
        move = DirectoryMove(
            self._broker, partition, source, target, self._has_copy, partial(self._ended, key)
        )
        self._moves[key] = move
        move.begin()

    # --- so many at once -----------------------------------------------------------------------

    def _has_copy(self, move: DirectoryMove) -> None:
        self._waiting.append(move)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and len(self._copying) < COPIED_AT_ONCE and not self._closed:
            move = self._waiting.popleft()
            if not move.ended:
                self._copying.add(move)
                move.copy()

    def _ended(self, key: TopicPartition, move: DirectoryMove) -> None:
        if self._moves.get(key) is move:
            del self._moves[key]
        self._copying.discard(move)
        self._go_on()

    def _is_gone(self, partition: Partition) -> None:
        """Look at a move again, once it is known whether its partition took another role."""
        move = self._moves.get(partition.topic_partition)
        if move is not None:
            self._broker.clock.call_later(0, move.look)

    def _directory_failed(self, error: OSError) -> None:
        for move in tuple(self._moves.values()):
            self._broker.clock.call_later(0, move.look)

    # --- beginning and end of the broker -------------------------------------------------------

    def resume(self) -> None:
        """Begin those moves anew that the last stop has interrupted, as their partitions come."""
        self._broker.opened.append(self._comes)
        self._broker.follows.append(self._comes)
        for partition in (*self._broker.partitions.values(), *self._broker.followed.values()):
            self._comes(partition)

    def _comes(self, partition: Partition) -> None:
        key = partition.topic_partition
        for directory in self._broker.directories:
            name, topic_id = directory.futures.left.get(key, ("", b""))
            if not name or key in self._moves:
                continue
            if topic_id != partition.topic_id or key in directory.logs:
                _logger.warning(
                    "%s/%s: is no copy of a log that is held here; it is left alone",
                    directory.path, name,
                )  # fmt: skip
                del directory.futures.left[key]
                continue
            _logger.info("%s moves to %s from the beginning", key, directory.path)
            try:
                self.ask(key, directory.path)
            except ApiError as error:
                _logger.warning("%s does not move to %s: %s", key, directory.path, error)

    def close(self) -> None:
        """Go on with no move. Copies stay, for the next start to begin them anew."""
        self._closed = True
        for move in tuple(self._moves.values()):
            move.stop()
        self._moves.clear()
