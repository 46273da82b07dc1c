"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361).

    group or topic may not be read   16
    operator reset the offset        21 OFFSET_RESET, once, with the offset of the reset
    offset below the first           21, with the first offset
    offset behind the end            21, with the end
    offset at the end                parked, if the client allows it; 19 when its time is over
    records, none of them wanted     read on; at the end, or after some rounds, 20 with the offset
                                     behind them. A parked pull waits on, and is answered so when
                                     its time is over
    records                          0, with messages

The end is the last stable offset: records of undecided transactions and records that are not yet
on all in-sync replicas are not pulled. A parked pull is woken when the end moves, when an operator
resets its group's offset, and when its group may no longer consume.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.long_poll import LongPoll
from headrace.frontends.rocketmq.answers import QUEUE_EMPTY, RemotingAnswer
from headrace.frontends.rocketmq.pulling.plans import PullPlan, plan_of, queue_of
from headrace.frontends.rocketmq.pulling.reading import READ_BYTES, MessageReader, ReadMessages
from headrace.frontends.rocketmq.pulling.retry_waits import SUSPEND_MS_MAX, RetryWait
from headrace.log.segment.batch_reader import NeedsDisk
from headrace.model.errors import ApiError, ErrorCode, HeadraceError
from headrace.model.nouns import Offset
from headrace.net.pending import Pending
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.hot.pull_forms import found_head
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.requests import PullFlag, pull_request

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.log.log import Log

NO_MATCH = "NO_MATCHED_MESSAGE"
ROUNDS_MAX = 32
"""Reads of one pull whose filter wants nothing; then the client asks again, behind them."""


class Pull:
    """A pull, from its request to its answer."""

    __slots__ = ("_asked", "_call", "_offset", "_partition", "_plan", "_poll", "_queue",
                 "_reading", "_rounds")  # fmt: skip

    def __init__(
        self,
        call: "RemotingCall",
        plan: PullPlan,
        queue: PulledQueue,
        queue_offset: int,
        partition: "Partition",
    ) -> None:
        """`queue_offset`: that of the request, which may be another one than the plan's."""
        self._call = call
        self._plan = plan
        self._queue = queue
        self._partition = partition
        self._asked = self._offset = queue_offset
        self._rounds = 0
        self._reading = False
        """Whether a thread reads; it looks again itself."""
        self._poll: LongPoll | None = None

    def look(self) -> None:
        """Answer with messages, or read on, or wait."""
        call, partition = self._call, self._partition
        if call.is_answered:
            return
        try:
            call.broker.check_may_consume(self._plan.request.consumer_group)
            end, start = partition.readable_end(True), partition.log_start_offset
            if partition.refusal is not None:
                raise ApiError(partition.refusal)
            reset = self._reset()
            if reset is not None:
                self._offset = reset
                self._answer(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
            elif not start <= self._offset <= end:
                below = self._offset < start
                self._offset = start if below else end
                remark = "OFFSET_TOO_SMALL" if below else "OFFSET_OVERFLOW_BADLY"
                self._answer(ResponseCode.PULL_OFFSET_MOVED, remark if end else QUEUE_EMPTY)
            elif self._offset == end:
                self._park()
            elif not call.client.has_room(self.look):
                return  # as many large answers are unread as one connection may have
            elif self._rounds >= ROUNDS_MAX:
                self._answer(ResponseCode.PULL_RETRY_IMMEDIATELY, NO_MATCH)
            else:
                self._rounds += 1
                self._read(end)
        except HeadraceError as error:
            self._end()
            call.fail(error)

    def _reset(self) -> int | None:
        """Return the offset of a reset of which the client has not heard, None without one."""
        try:
            return self._call.broker.offsets.take_reset(*self._plan.place)
        except ApiError:
            return None  # the coordinator is loading: one of the next pulls is answered with it

    def _read(self, end: int) -> None:
        log, at = self._partition.log, self._offset
        run = self._call.broker.broker.disk.run
        reader = self._call.broker.read_ahead.take(self._plan.place, log, at)
        if reader is None:
            found = log.read(Offset(at), READ_BYTES, below=Offset(end))
            if isinstance(found, NeedsDisk):
                self._reading = True
                self._call.broker.broker.disk.run(
                    partial(self._from_disk, log, end), self._have_read
                )
                return
            reader = MessageReader(log, found, at, end)
        wanted = self._plan.wanted
        if reader.takes_long(wanted.records_at_once, wanted.wanted is None):
            self._reading = True
            run(partial(self._taken, reader), self._have_read)
        else:
            self._have_read(self._taken(reader))

    def _from_disk(self, log: "Log", end: int) -> tuple[ReadMessages, MessageReader]:
        """Read some batches, and return their wanted messages. On any thread."""
        at = self._offset
        read = log.read_from_disk(Offset(at), READ_BYTES, below=Offset(end))
        return self._taken(MessageReader(log, read, at, end))

    def _taken(self, reader: MessageReader) -> tuple[ReadMessages, MessageReader]:
        """Return the next wanted messages of a read. On any thread."""
        plan = self._plan
        return reader.take(self._queue, plan.limits, plan.wanted.wanted), reader

    def _have_read(self, found: tuple[ReadMessages, MessageReader] | BaseException) -> None:
        self._reading = False
        if self._call.is_answered:
            return
        if isinstance(found, ApiError) and found.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.look()  # retention has deleted it since
        elif isinstance(found, HeadraceError):
            self._end()
            self._call.fail(found)
        elif isinstance(found, BaseException):
            raise found
        else:
            messages, reader = found
            self._offset = messages.next_offset
            if not reader.is_done:
                self._call.broker.read_ahead.keep(self._plan.place, self._partition.log, reader)
            if messages.message_count:
                group, topic, _ = self._plan.place
                self._call.broker.traffic.pulled(group, topic, messages.message_count)
                self._answer_found(messages.parts)
            else:
                self.look()

    def _park(self) -> None:
        """Wait for the end to move, as long as the client allows.

        Not if records were read before, and none was wanted: the client's offset moves behind them.
        """
        request = self._plan.request
        if self._poll is None and self._offset > self._asked:
            self._expire()
            return
        if not request.system_flag & PullFlag.SUSPEND or request.suspend_ms <= 0:
            self._expire()
            return
        if self._poll is not None:
            return
        broker = self._call.broker
        waiting = self._call.waiting = Pending()
        group = request.consumer_group
        poll = self._poll = LongPoll(
            broker.broker.clock,
            broker.deadlines,
            waiting,
            seconds=min(request.suspend_ms, SUSPEND_MS_MAX) / 1000,
            bytes_min=1,
            look=self._woken,
            expire=self._expire,
            on_end=lambda: broker.parked.remove(group, poll.wake),
        )
        poll.watch([self._partition])
        broker.parked.add(group, poll.wake)

    def _woken(self) -> None:
        if not self._reading:
            self._rounds = 0
            self.look()

    def _expire(self) -> None:
        if self._offset > self._asked:  # records were read, and none was wanted
            self._answer(ResponseCode.PULL_RETRY_IMMEDIATELY, NO_MATCH)
            return
        remark = "OFFSET_OVERFLOW_ONE" if self._offset else QUEUE_EMPTY
        self._answer(ResponseCode.PULL_NOT_FOUND, remark)

    def _end(self) -> None:
        """End the wait, if there is one."""
        waiting, self._call.waiting = self._call.waiting, None
        if self._poll is not None:
            self._poll.end()
        if waiting is not None:
            waiting.resolve(None)

    def _answer(self, code: ResponseCode, remark: str) -> None:
        self._end()
        partition = self._partition
        fields = {
            "suggestWhichBrokerId": "0",
            "groupSysFlag": "0",
            "nextBeginOffset": str(self._offset),
            "maxOffset": str(partition.readable_end(True)) if partition.refusal is None else "0",
            "minOffset": str(partition.log_start_offset),
            "topicSysFlag": "0",
        }
        self._call.answer(RemotingAnswer(code, fields, b"", remark))

    def _answer_found(self, messages: list[bytes]) -> None:
        self._end()
        partition, opaque = self._partition, self._call.command.opaque
        end = partition.readable_end(True) if partition.refusal is None else 0
        size = sum(map(len, messages))
        head = found_head(self._offset, end, partition.log_start_offset, opaque, size)
        self._call.answer_frame([head, *messages])


def pull(call: "RemotingCall") -> None:
    """Answer a pull, now or later."""
    request = pull_request(call.command)
    broker = call.broker
    broker.require_group(call.identity, request.consumer_group)
    awaits_retries = broker.awaits_retries(request.topic) == request.consumer_group
    broker.note_group(request.consumer_group)
    broker.check_may_consume(request.consumer_group)
    if awaits_retries:
        RetryWait(call, request, pull)
        return
    plan = plan_of(call, request, broker.topic(request.topic))
    store_pulled_offset(broker, plan, request.commit_offset)
    numbers = broker.numbers.known(plan.topic.info)
    if numbers is None:
        call.work(_numbered(call, plan))
    else:
        begin(call, plan, _queue(call, plan, numbers), request.queue_offset)


def _queue(call: "RemotingCall", plan: PullPlan, numbers: Sequence[int]) -> PulledQueue:
    queue_id = plan.request.queue_id
    return queue_of(call, plan.topic, queue_id, numbers[queue_id])


async def _numbered(call: "RemotingCall", plan: PullPlan) -> None:
    numbers = await call.broker.numbered(plan.topic)
    begin(call, plan, _queue(call, plan, numbers), plan.request.queue_offset)


def begin(call: "RemotingCall", plan: PullPlan, queue: PulledQueue, queue_offset: int) -> None:
    """Answer a pull that was checked, now or later. Raises ApiError."""
    partition = call.broker.partition(plan.topic, plan.request.queue_id)
    Pull(call, plan, queue, queue_offset, partition).look()


def store_pulled_offset(broker: "ServedBroker", plan: PullPlan, offset: int) -> None:
    """Store the offset that comes with a pull, if the client asks for it. Raises RequestRefused."""
    if plan.request.system_flag & PullFlag.COMMIT_OFFSET and offset >= 0:
        broker.check_group_is_free(plan.request.consumer_group)
        broker.offsets.store_soon(*plan.place, offset)
