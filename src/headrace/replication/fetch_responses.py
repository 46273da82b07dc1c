"""`Answers`: apply a leader's fetch response to each partition: append, truncate, reset or pause.

20 partitions in each turn of the loop, with one gathered write per file and turn.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.client.calls.call import HotCall, error_code
from headrace.client.transport.peer import Peer
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.follower_append import UnexpectedBatch
from headrace.log.log import Log
from headrace.log.truncation import BelowHighWatermark
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import BrokerId, LeaderEpoch, Offset, counted
from headrace.ports.callbacks import Done
from headrace.ports.file_ranges import FileRange
from headrace.posix.awaiting import called_back
from headrace.record.compression import CorruptBatch
from headrace.replication.fetch_dependencies import FetchDependencies
from headrace.replication.fetch_session import Key
from headrace.replication.followed_partition import EXPECTED, FollowedPartition
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets
from headrace.wire.kafka.hot.fetch_response import NO_EPOCH_END, FetchedPartition

_logger = logging.getLogger(__name__)
TAKEN_PER_TURN = 20
"""Number of partitions appended to in one turn of the loop."""


class Arrived(NamedTuple):
    """A leader's response for one partition."""

    member: FollowedPartition
    fetched: FetchedPartition


class _Cut(NamedTuple):
    member: FollowedPartition
    offset: Offset


class FetchResponses:
    """Applies the fetch responses of one leader. For the deciding thread."""

    def __init__(
        self,
        broker: Broker,
        dependencies: FetchDependencies,
        leader: BrokerId,
        rest: Callable[[FollowedPartition], bool],
        left: Callable[[Partition], None],
    ) -> None:
        """Make the handler of responses of `leader`.

        `rest` pauses fetching a partition and returns whether to log that; `left` is called with a
        partition whose log was truncated and is free again.
        """
        self._broker = broker
        self._dependencies = dependencies
        self._leader = leader
        self._rest = rest
        self._left = left
        self._cuts: list[_Cut] = []
        self._out_of_range: list[FollowedPartition] = []
        self._strangers = 0
        """Number of partitions for which the leader denied this broker's authorisation."""
        self._strange = False
        """Whether the leader's refusal was logged, and no append succeeded since."""

    async def take(self, arrived: Sequence[Arrived]) -> list[Key]:
        """Append what can be appended; return the keys of the other partitions.

        Truncations have begun on return.
        """
        writes, missed = self._dependencies.writes, []
        for at in range(0, len(arrived), TAKEN_PER_TURN):
            if at:
                await called_back(self._next_turn)
            writes.begin()
            try:
                for member, fetched in arrived[at : at + TAKEN_PER_TURN]:
                    # The partition may have got other orders meanwhile.
                    if not (member.ready and self._take_one(member, fetched)):
                        missed.append(member.key)
            finally:
                await called_back(self._end_writes)
        self._begin_cuts()
        self._say_strange()
        return missed

    def out_of_range(self) -> list[FollowedPartition]:
        """Return and clear the partitions whose fetch offset is out of the leader's range."""
        found, self._out_of_range = self._out_of_range, []
        return found

    def _next_turn(self, done: Done[BaseException | None]) -> None:
        self._broker.clock.call_later(0, partial(done, None))

    def _end_writes(self, done: Done[BaseException | None]) -> None:
        """Perform the turn's writes; a failed write has fenced its directory."""
        if self._dependencies.writes.end(lambda _: done(None)) is not None:
            done(None)

    # --- one partition --------------------------------------------------------------------------

    def _take_one(self, member: FollowedPartition, fetched: FetchedPartition) -> bool:
        """Apply a response to a partition; return whether its log was appended to or is up to
        date."""
        if fetched.error_code:
            self._refused(member, error_code(fetched.error_code))
        elif fetched.diverging_epoch != NO_EPOCH_END:
            epoch, end = fetched.diverging_epoch
            self._diverged(member, LeaderEpoch(epoch), Offset(end))
        else:
            return self._append(member, fetched)
        return False

    def _append(self, member: FollowedPartition, fetched: FetchedPartition) -> bool:
        log, data = member.partition.log, fetched.records
        if data is None or isinstance(data, FileRange):
            data = b""
        try:
            member.follower.append(
                memoryview(data), Offset(fetched.high_watermark), self._broker.clock.wall_ms()
            )
            if fetched.log_start_offset > log.start_offset:
                member.follower.move_start(Offset(fetched.log_start_offset))
        except UnexpectedBatch as error:
            if error.base_offset < log.end_offset == log.start_offset and not log.segments[0].size:
                self._reset(member, error.base_offset)  # the leader's start lies inside of a batch
            else:
                self._complain(member, str(error), "the next answer may continue the log")
            return False
        except CorruptBatch as error:
            self._complain(member, str(error), "look at the leader's disk and at the network")
            return False
        except StorageError:
            return False  # the directory has logged it, and the partition no longer follows
        except ApiError as error:
            if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._complain(member, str(error), "the leader's start is taken later")
            return False
        member.succeeded()
        self._strange = False
        if data:
            throttle = self._broker.throttles.follower
            if throttle.throttles(*member.partition.topic_partition):
                throttle.count(len(data))
            self._left(member.partition)
        return True

    def _refused(self, member: FollowedPartition, code: ErrorCode) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append(member)
        elif code in EXPECTED:
            self._rest(member)
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._rest(member)
            self._strangers += 1
        else:
            self._complain(member, code.name, "see the leader's log")

    def _say_strange(self) -> None:
        """Log once, for all partitions, that the leader does not accept this broker as a
        replica."""
        count, self._strangers = self._strangers, 0
        if count and not self._strange:
            self._strange = True
            _logger.warning(
                "broker %d, the leader of %s followed here, refuses this broker's fetches: it does"
                " not know this broker's present registration. Fetches resume after the next"
                " session of the metadata store. If this lasts: this broker must connect through"
                " inter.broker.listener.name and have the permission ClusterAction", self._leader,
                counted(count, "partition"),
            )  # fmt: skip

    def _complain(self, member: FollowedPartition, cause: str, remedy: str) -> None:
        """Pause fetching a partition, and log the cause unless the last failure was logged."""
        if self._rest(member):
            _logger.warning(
                "%s cannot be fetched from broker %d: %s; it is tried again, %s",
                member.partition.topic_partition, member.follower.leader, cause, remedy,
            )  # fmt: skip

    # --- cutting --------------------------------------------------------------------------------

    def _diverged(self, member: FollowedPartition, epoch: LeaderEpoch, end: Offset) -> None:
        try:
            offset = member.follower.offset_to_cut(epoch, end)
        except ApiError:
            return  # the partition got other orders
        log = member.partition.log
        if offset is None:
            self._broker.unfollow(member.partition)
        elif offset >= log.end_offset:
            self._complain(
                member, f"nothing of it is to be cut, the leader has epoch {epoch} end at {end}",
                "see the leader's log",
            )  # fmt: skip
        else:
            self._cuts.append(_Cut(member, offset))

    def _begin_cuts(self) -> None:
        """Truncate all diverged logs, each directory's together."""
        cuts, self._cuts = self._cuts, []
        together: dict[tuple[str, bool], tuple[LogDirectory, list[_Cut]]] = {}
        for cut in cuts:
            directory = self._directory_of(cut.member.partition.log)
            if directory is not None and not cut.member.partition.log.cutting:
                at = (directory.path, cut.member.follower.unclean)
                together.setdefault(at, (directory, []))[1].append(cut)
        for (_, unclean), (directory, some) in together.items():
            self._cut(directory, some, unclean=unclean)

    def _cut(self, directory: LogDirectory, cuts: list[_Cut], *, unclean: bool) -> None:
        def done(result: BaseException | None) -> None:
            if result is None or isinstance(result, StorageError):
                for member, _ in cuts:
                    self._left(member.partition)
            elif len(cuts) > 1:  # one of them is the cause
                for cut in cuts:
                    self._cut(directory, [cut], unclean=unclean)
            else:
                self._give_up(cuts[0].member, result)

        logs = [(member.partition.log, offset) for member, offset in cuts]
        directory.truncate_logs(logs, done, unclean=unclean)
        for member, _ in cuts:
            self._left(member.partition)

    def _give_up(self, member: FollowedPartition, because: BaseException) -> None:
        """Take a replica out of service that cannot be truncated to its leader's log; its data
        stays."""
        what = "committed records would go" if isinstance(because, BelowHighWatermark) else because
        _logger.error(
            "%s: not cut to what broker %d, its leader, has: %s. The partition is out of service"
            " and keeps its bytes: compare the replicas, then delete the wrong one",
            member.partition.topic_partition, member.follower.leader, what,
        )  # fmt: skip
        member.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        self._broker.unfollow(member.partition)

    def _reset(self, member: FollowedPartition, start: Offset) -> None:
        """Empty the log, to begin where the leader's log does."""
        log = member.partition.log
        directory = self._directory_of(log)
        if directory is not None and not log.cutting:
            directory.reset_logs([(log, start)], lambda _: self._left(member.partition))
            self._left(member.partition)

    def _directory_of(self, log: Log) -> LogDirectory | None:
        for directory in self._broker.directories:
            if directory.logs.get(log.topic_partition) is log:
                return directory
        return None

    # --- out of the leader's range --------------------------------------------------------------

    async def find_place(self, members: Sequence[FollowedPartition], peer: Peer) -> None:
        """Request the leader's log start and end offsets; then reset or truncate. Raises
        ClientError."""
        starts = await self._ask_offsets(members, list_offsets.EARLIEST, peer)
        ends = await self._ask_offsets(members, list_offsets.LATEST, peer)
        for member in members:
            start, end = starts.get(member), ends.get(member)
            log = member.partition.log
            if not member.ready:
                continue
            if start is not None and start > log.end_offset:
                _logger.info(
                    "%s: broker %d, its leader, begins at %d, beyond the end here (%d)",
                    log.topic_partition, member.follower.leader, start, log.end_offset,
                )  # fmt: skip
                self._reset(member, start)
            elif end is not None and end < log.end_offset:
                self._diverged(member, log.epochs.latest, end)
            else:
                self._rest(member)
        self._begin_cuts()

    async def _ask_offsets(
        self, members: Sequence[FollowedPartition], which: int, peer: Peer
    ) -> dict[FollowedPartition, Offset]:
        asked: dict[str, dict[int, FollowedPartition]] = {}
        for member in members:
            topic, index = member.partition.topic_partition
            asked.setdefault(topic, {})[index] = member
        topics = [
            list_offsets.TopicRequest(
                topic,
                [
                    list_offsets.PartitionRequest(index, which, member.partition.leader_epoch)
                    for index, member in some.items()
                ],
            )
            for topic, some in asked.items()
        ]
        request = list_offsets.ListOffsetsRequest(self._broker.broker_id, 0, topics)
        call = HotCall(
            ApiKey.LIST_OFFSETS, list_offsets.encode_request, list_offsets.decode_response, request
        )
        response = await peer.ask(call)
        return {
            asked[topic.name][found.partition]: Offset(found.offset)
            for topic in response.topics
            for found in topic.partitions
            if not found.error_code and found.offset >= 0
        }
