"""`DirectoryMoves`: move replicas between this broker's log directories (KIP-113).

A log is copied into the target directory (`log.directory.future_logs`) in pieces, as a follower
would, while the partition is in use. When the copy is almost complete, appends are refused for some
milliseconds: the rest is copied, and the copy replaces the log under the same role. On any error
the copy is removed, and the log stays where it is.
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
"""Number of logs copied at the same time; other moves wait."""


class DirectoryMoves:
    """The moves of one broker's replicas. For the deciding thread."""

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
        """Move a partition's log to the log directory `path`, or create it there later.

        A request for its present directory cancels a move. ApiError: LOG_DIR_NOT_FOUND;
        INVALID_TOPIC_EXCEPTION (the name is too long, or a queue's); KAFKA_STORAGE_ERROR (a
        directory has failed, or the log is out of service); UNKNOWN_TOPIC_OR_PARTITION;
        REPLICA_NOT_AVAILABLE if there is no log yet: it will be created in `path`.
        """
        target = self._directory(path)
        reserved = reserved_topics(key.topic)
        if reserved is not None:
            # A queue writes acknowledgements to a file next to its log, which would change during
            # the copy.
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{key} belongs to {reserved.kept_for}, which cannot change its log directory",
            )
        if not file_names.future_fits(key):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is too long")
        partition = self._partition(key)
        if partition is None:
            self._placement.ask_for(key, target)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{key} is not on this broker")
        move = self._moves.get(key)
        if move is not None and move.target is target:
            return
        if move is not None:
            move.call_off("another directory was requested")
        source = self._placement.directory_of(partition.log)
        if source is None or partition.role.closed:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key} is out of service")
        if source is not target:
            self._begin(partition, source, target)

    def _directory(self, path: str) -> LogDirectory:
        """Return the log directory at `path`; raise ApiError unless all directories are working."""
        broker = self._broker
        wanted = path.rstrip("/")
        for directory in broker.directories:
            if wanted in (directory.path, broker.disk.absolute(directory.path)):
                break
        else:
            raise ApiError(
                ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of this broker's log.dirs"
            )
        for each in broker.directories:
            # A failed directory may have a log, or a copy of it, that cannot be seen.
            if each.fenced:
                raise ApiError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{each.path} has failed: no log can move before its disk is repaired",
                )
        return directory

    def _partition(self, key: TopicPartition) -> Partition | None:
        """Return the partition on this broker, or None if it may come later. Raises ApiError."""
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
                f"{key} has {size} bytes, {target.path} has only {free} bytes free",
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
        """Check a move in the next turn, after its partition may have taken another role."""
        move = self._moves.get(partition.topic_partition)
        if move is not None:
            self._broker.clock.call_later(0, move.look)

    def _directory_failed(self, error: OSError) -> None:
        for move in tuple(self._moves.values()):
            self._broker.clock.call_later(0, move.look)

    # --- beginning and end of the broker -------------------------------------------------------

    def resume(self) -> None:
        """Restart the moves that the last stop interrupted, when their partitions open."""
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
                    "%s/%s: not a copy of a log on this broker; it is left alone",
                    directory.path, name,
                )  # fmt: skip
                del directory.futures.left[key]
                continue
            _logger.info("%s: restarting its move to %s", key, directory.path)
            try:
                self.ask(key, directory.path)
            except ApiError as error:
                _logger.warning("%s cannot be moved to %s: %s", key, directory.path, error)

    def close(self) -> None:
        """Stop all moves. Copies stay; the next start restarts the moves."""
        self._closed = True
        for move in tuple(self._moves.values()):
            move.stop()
        self._moves.clear()
