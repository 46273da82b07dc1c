"""Encode share-state requests (API keys 83 to 87, KIP-932) and decode their responses.

All questions of a request are of one kind and about one group.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from headrace.client.calls.call import ColdCall, Maker, error_code
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import (
    Answer,
    Begin,
    Delete,
    Question,
    Read,
    ReadSummary,
    Write,
)
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.record_states import SETTLED, RecordState, StateBatch
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.wire.kafka.api import ApiKey

_Entity = Any
_SILENT = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer does not name the partition")
Fields = dict[str, Any]
NO_ID = bytes(16)
_KEPT_STATES = frozenset({RecordState.AVAILABLE, *SETTLED})


def call_of(questions: Sequence[Question]) -> ColdCall[Sequence[Answer]]:
    """Return one request for all questions; it returns their answers in the same order."""
    match questions[0]:
        case Read():
            return _call(ApiKey.READ_SHARE_GROUP_STATE, 0, "ReadStateData", questions, _read)
        case ReadSummary():
            key = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
            return _call(key, 1, "ReadStateSummaryData", questions, _summary)
        case Begin():
            key = ApiKey.INITIALIZE_SHARE_GROUP_STATE
            return _call(key, 0, "InitializeStateData", questions, _done)
        case Write():
            return _call(ApiKey.WRITE_SHARE_GROUP_STATE, 1, "WriteStateData", questions, _done)
        case Delete():
            return _call(ApiKey.DELETE_SHARE_GROUP_STATE, 0, "DeleteStateData", questions, _done)


def _call(
    key: ApiKey,
    version: int,
    topic_entity: str,
    questions: Sequence[Question],
    answer_of: Callable[[_Entity], Answer],
) -> ColdCall[Sequence[Answer]]:
    def build(maker: Maker) -> _Entity:
        topics: dict[bytes, list[_Entity]] = {}
        for question in questions:
            part = maker.part("PartitionData", **_fields(maker, question))
            topics.setdefault(question.key.topic_id, []).append(part)
        return maker.request(
            group_id=questions[0].key.group,
            topics=tuple(
                maker.part(topic_entity, topic_id=UUID(bytes=topic_id), partitions=tuple(parts))
                for topic_id, parts in topics.items()
            ),
        )

    def parse(response: _Entity) -> Sequence[Answer]:
        found = _results(questions[0].key.group, response)
        return [
            answer_of(found[question.key]) if question.key in found else _SILENT
            for question in questions
        ]

    return ColdCall(key, build, parse, versions=(version, version))


def _fields(maker: Maker, question: Question) -> Fields:
    """Return the request's fields for one partition."""
    fields: Fields = {"partition": question.key.partition}
    match question:
        case Read(_, leader_epoch):
            fields |= {"leader_epoch": leader_epoch}
        case ReadSummary():
            fields |= {"leader_epoch": -1}
        case Begin(_, state_epoch, start):
            fields |= {"state_epoch": state_epoch, "start_offset": start}
        case Write(_, state_epoch, leader_epoch, change):
            fields |= {
                "state_epoch": state_epoch,
                "leader_epoch": leader_epoch,
                "start_offset": change.start,
                "delivery_complete_count": change.settled,
                "state_batches": tuple(
                    maker.part(
                        "StateBatch",
                        first_offset=batch.first,
                        last_offset=batch.last,
                        delivery_state=int(batch.state),
                        delivery_count=batch.tries,
                    )
                    for batch in change.batches
                ),
            }
        case Delete():
            pass
    return fields


def _results(group: str, response: _Entity) -> Mapping[ShareKey, _Entity]:
    return {
        ShareKey(group, id_of(topic), partition.partition): partition
        for topic in response.results
        for partition in topic.partitions
    }


def id_of(topic: _Entity) -> bytes:
    """Return the topic id of a request's or response's topic; NO_ID if it has none."""
    found: bytes = NO_ID if topic.topic_id is None else topic.topic_id.bytes
    return found


def _error(result: _Entity) -> ApiError | None:
    code = error_code(result.error_code)
    return None if code is ErrorCode.NONE else ApiError(code, result.error_message)


def _done(result: _Entity) -> Answer:
    return _error(result)


def _kept(result: _Entity, found: Callable[[], Answer]) -> Answer:
    """Return `found()`, None for UNKNOWN_TOPIC_OR_PARTITION (no state is stored), or the error."""
    error = _error(result)
    if error is None:
        return found()
    return None if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error


def _read(result: _Entity) -> Answer:
    def found() -> Answer:
        batches = state_batches(result.state_batches)
        return StateRead(result.state_epoch, CursorState(result.start_offset, batches))

    return _kept(result, found)


def _summary(result: _Entity) -> Answer:
    def found() -> Answer:
        complete = max(getattr(result, "delivery_complete_count", 0), 0)
        return StateSummary(result.state_epoch, result.leader_epoch, result.start_offset, complete)

    return _kept(result, found)


def state_batches(batches: Sequence[_Entity]) -> tuple[StateBatch, ...]:
    """Convert the state batches of a request or a response.

    Malformed: offsets or state are invalid.
    """
    found = []
    for batch in batches:
        first, last, number = batch.first_offset, batch.last_offset, batch.delivery_state
        if not 0 <= first <= last or number not in _KEPT_STATES or batch.delivery_count < 0:
            raise Malformed(f"offsets {first} to {last} in state {number}")
        found.append(StateBatch(first, last, RecordState(number), batch.delivery_count))
    return tuple(found)
