"""`SendRuns`: plain sends of one connection, many of a pass at once.

A producer's messages differ in queue, body and properties. In each pass the first one to a queue is
checked as by `sends.send`, the others of the queue only become records, and all are answered
together. All that is not plain goes to `sends.send`: delays, transactions, batches, compressed
bodies, topics that do not exist, refusals.

Such messages are one `QueuedSend`, so their order with others of the queue is that of arrival.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.answers import RemotingAnswer, refusal_of
from headrace.frontends.rocketmq.sending import RECORD_BYTES, QueuedSend
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.record.record import sized
from headrace.security.authorizer import Operation
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import (
    PROTOCOL_VERSION,
    CommandFlag,
    RemotingCommand,
    encode_command,
)
from headrace.wire.rocketmq.frames import HEADER_AT, LENGTH_BYTES
from headrace.wire.rocketmq.hot.send_forms import SendForm, send_form
from headrace.wire.rocketmq.message_ids import HOST_V6_BYTES, OFFSET_BITS
from headrace.wire.rocketmq.properties import KEYS, PROPERTIES_BYTES_MAX, UNIQUE_KEY, find_property
from headrace.wire.rocketmq.record_header import FIXED, VERSION, encoded_header
from headrace.wire.rocketmq.sent_messages import BODY_BYTES_MAX
from headrace.wire.rocketmq.stored_messages import SystemFlag
from headrace.wire.rocketmq.topic_names import NOT_SENDABLE, RETRY_PREFIX

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingPeer
    from headrace.frontends.rocketmq.serving import ServedBroker, ServedTopic
    from headrace.ports.disk import Buffer

_TOPIC = "b"
FORMS_MAX = 64
"""Forms of one connection: groups and topics that it sends to."""
_WAIT, _WAITS = b"WAIT\x01", b"WAIT\x01true\x02"
"""The property by which a message may wait for nothing, and its usual value."""
_NO_KEY = sized(None)
_HEAD = struct.Struct(">iI")
_pack_head, _pack_facts = _HEAD.pack, FIXED.pack


class _Found(NamedTuple):
    """A topic that the client may send to."""

    topic: "ServedTopic"
    numbers: Sequence[int]
    """Of its partitions in the cluster."""
    queues: int
    """The number of queues that may be sent to."""


class SendRun(QueuedSend):
    """Messages of one pass and connection for one queue."""

    __slots__ = ("_is_late", "_number", "_runs", "asked")

    def __init__(self, runs: "SendRuns", place: TopicPartition, number: int) -> None:
        """`number`: that of the queue's partition."""
        # Not by QueuedSend's: with many queues there is a run for each message.
        self.place, self.mode, self.parts, self.size = place, runs.mode, [], 0
        self._is_late = False
        self._runs = runs
        self._number = number
        self.asked: list[tuple[bytes, bytes]] = []
        """Opaque and unique key of each message."""

    def late(self, offset: int, code: ResponseCode) -> None:
        """Answer for all messages, which are not flushed or replicated in time."""
        self._answer(offset, code)
        self._is_late = True

    def done(self, offset: int | ApiError) -> None:
        """Answer for all messages, the first of which has this offset, or for the error."""
        if self._is_late:
            return
        if not isinstance(offset, ApiError):
            self._answer(offset, ResponseCode.SUCCESS)
            return
        runs, refused = self._runs, refusal_of(offset)
        runs.answered(len(self.asked))
        runs.count_refused(len(self.asked), refused.code)
        runs.push(self._refusals(refused, runs.sent_fields))

    def _answer(self, offset: int, code: ResponseCode) -> None:
        runs, asked = self._runs, self.asked
        runs.answered(len(asked))
        form = runs.stored_form
        if code is not ResponseCode.SUCCESS:
            form = form.replace(b'"code":0', b'"code":%d' % code, 1)
        out: list[bytes] = []
        queue_id, physical = self.place.partition, self._number << OFFSET_BITS
        for opaque, key in asked:
            answer = form % (queue_id, key, physical | offset, offset, opaque)
            out += (_pack_head(LENGTH_BYTES + len(answer), len(answer)), answer)
            offset += 1
        runs.push(b"".join(out))

    def _refusals(self, refused: RemotingAnswer, fields: Mapping[str, str]) -> bytes:
        answers = (
            RemotingCommand(
                refused.code, int(opaque), CommandFlag.RESPONSE, fields, b"", refused.remark
            )
            for opaque, _ in self.asked
        )
        return b"".join(part for answer in answers for part in encode_command(answer))


class SendRuns:
    """The plain sends of one connection."""

    __slots__ = (
        "_answered", "_born_host", "_born_host_flag", "_broker", "_forms", "_identity", "_names",
        "_runs", "_topics", "_writable", "mode", "push", "sent_fields", "stored_form", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        broker: "ServedBroker",
        peer: "RemotingPeer",
        push: "Callable[[Buffer], None]",
        answered: Callable[[], None],
    ) -> None:
        """`push` sends the answers; `answered` is called when there are fewer waiting."""
        self._broker = broker
        self._identity = peer.identity
        self._born_host = peer.born_host
        v6 = len(peer.born_host) == HOST_V6_BYTES
        self._born_host_flag = SystemFlag.BORN_HOST_V6 if v6 else 0
        self.mode = broker.settings.send_mode
        self.push = push
        self.sent_fields = broker.sent_fields
        self.stored_form = (
            '{"code":0,"extFields":{"queueId":"%d","transactionId":"%b",'
            f'"msgId":"{peer.store_host.hex().upper()}%016X","TRACE_ON":"true",'
            f'"MSG_REGION":"{broker.settings.region}","queueOffset":"%d"}},'
            '"flag":1,"language":"JAVA","opaque":%b,'
            f'"serializeTypeCurrentRPC":"JSON","version":{PROTOCOL_VERSION}}}'
        ).encode()
        """The header of an answer: queue id, unique key, physical offset, offset, opaque."""
        self._answered = answered
        self._forms: list[SendForm] = []
        """The form that was used last comes first."""
        self._names: dict[SendForm, str] = {}
        """By form: the topic by RocketMQ's name."""
        self._topics: dict[SendForm, _Found] = {}
        """Topics that were found in this pass, and that the client may send to."""
        self._writable: set[int] = set()
        """Ids of the log directories' contexts that were below the watermark in this pass."""
        self._runs: dict[tuple[SendForm, bytes], SendRun] = {}
        """The newest run of each queue in this pass."""
        self.waiting = 0
        """Messages that are not answered yet."""

    @property
    def has_forms(self) -> bool:
        """Whether a send may be taken."""
        return bool(self._forms)

    def learn(self, header: bytes, command: RemotingCommand) -> None:
        """Remember the form of a send's header; the one not used for longest is forgotten."""
        topic = (command.fields or {}).get(_TOPIC, "")
        if topic in NOT_SENDABLE or topic.startswith(RETRY_PREFIX):
            return
        if any(form.read(header, 0, len(header)) for form in self._forms):
            return  # known, and no plain send for another reason
        form = send_form(header)
        if form is None:
            return
        if len(self._forms) >= FORMS_MAX:
            del self._names[self._forms.pop()]
        self._forms.insert(0, form)
        self._names[form] = topic

    def end_pass(self) -> None:
        """Forget what was checked in this pass."""
        if self._topics:
            self._topics = {}
            self._runs = {}
            self._writable = set()

    def count_refused(self, count: int, code: int) -> None:
        """Count messages that are answered with an error."""
        for _ in range(count):
            self._broker.counts.answered(RequestCode.SEND_MESSAGE_V2, code)

    def answered(self, count: int) -> None:
        """Note that messages are answered."""
        self.waiting -= count
        self._answered()

    def take(self, data: bytes, at: int, waiting_max: int) -> int:
        """Take the plain sends at the head of `data[at:]`; return the position of the first other.

        At most `waiting_max` of all wait for answers.
        """
        before, count, waiting = at, len(data), self.waiting
        while count - at > HEADER_AT and self.waiting < waiting_max:
            length, header_bytes = _HEAD.unpack_from(data, at)
            body_at, end = at + HEADER_AT + header_bytes, at + LENGTH_BYTES + length
            if not body_at < end <= count or not self._taken(data, at + HEADER_AT, body_at, end):
                break
            at = end
        self._broker.counts.requests[RequestCode.SEND_MESSAGE_V2] += self.waiting - waiting
        return max(before, at)

    def _taken(self, data: bytes, at: int, body_at: int, end: int) -> bool:
        """Take one send, if it is plain."""
        for form in self._forms:
            fields = form.read(data, at, body_at)
            if fields is not None:
                break
        else:
            return False
        if form is not self._forms[0]:
            self._forms.remove(form)
            self._forms.insert(0, form)
        queue_id, born_at_ms, properties, opaque = fields
        key = find_property(properties, UNIQUE_KEY)
        if (
            key is None
            or end - body_at > BODY_BYTES_MAX
            or len(properties) > PROPERTIES_BYTES_MAX
            or b"DELAY" in properties
            or b"TIMER_" in properties
            or b"TRAN_MSG" in properties
            or (_WAIT in properties and _WAITS not in properties)
        ):
            return False
        run = self._runs.get((form, queue_id))
        if run is None or not self._broker.sending.is_last(run):
            run = self._run(form, queue_id)
            if run is None:
                return False
        keys = find_property(properties, KEYS) if KEYS in properties else None
        fixed = _pack_facts(VERSION, 0, self._born_host_flag, born_at_ms, 0)
        header = encoded_header(b"".join((fixed, self._born_host, properties)))
        run.parts.append((sized(keys) if keys else _NO_KEY, data[body_at:end], header))
        run.size += end - body_at + len(header) + RECORD_BYTES
        run.asked.append((opaque, key))
        self.waiting += 1
        return True

    def _run(self, form: SendForm, queue_id: bytes) -> SendRun | None:
        """Return a new run behind all messages of its queue; None: `sends.send` has to decide."""
        broker, queue = self._broker, int(queue_id)
        try:
            found = self._topics.get(form) or self._found(form)
            if found is None or queue >= found.queues:
                return None
            log = broker.partition(found.topic, queue).log
            if id(log.context) not in self._writable:
                broker.watermark.check(log)
                self._writable.add(id(log.context))
        except HeadraceError:
            return None
        run = SendRun(self, TopicPartition(found.topic.info.name, queue), found.numbers[queue])
        broker.sending.add_in_pass(run)
        self._runs[form, queue_id] = run
        return run

    def _found(self, form: SendForm) -> "_Found | None":
        """Return the topic of a form if the client may send to it. Raises HeadraceError."""
        broker, name = self._broker, self._names[form]
        topic = broker.topic_if_any(name)
        if topic is None or name in broker.waiting_sends:
            return None
        numbers = broker.numbers.known(topic.info)
        if numbers is None or not broker.may(self._identity, Operation.WRITE, topic):
            return None
        queues = max(topic.read_queues, topic.write_queues)
        found = self._topics[form] = _Found(topic, numbers, queues)
        return found
