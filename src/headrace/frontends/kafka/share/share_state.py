"""Common code of the five APIs of share groups' state, which only brokers use.

A request by another listener or without permission is answered CLUSTER_AUTHORIZATION_FAILED for
each partition, and nothing is done. NOT_COORDINATOR if another broker has the state.
COORDINATOR_LOAD_IN_PROGRESS is answered at once: the sender retries, and other requests do not
wait.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.cluster.peers.share_state_calls import NO_ID, id_of
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import Answer as StateAnswer
from headrace.coordination.share.questions import Question, put
from headrace.frontends.kafka.authentication.authorisation import (
    CLUSTER_ACTION,
    authorization_failed,
)
from headrace.frontends.kafka.authentication.between_brokers import from_broker
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.ports.callbacks import gather
from headrace.wire.kafka import kio_codec

QuestionOf = Callable[[ShareKey, Entity], Question]
"""Makes the coordinator's question for one partition of a request; raises ApiError."""
FieldsOf = Callable[[Make, StateAnswer], dict[str, Any]]
"""Makes the fields of a partition's answer other than its index and error."""


def answered(
    context: RequestContext,
    body: memoryview,
    topic_entity: str,
    question_of: QuestionOf,
    fields_of: FieldsOf,
) -> Answer:
    """Ask the coordinator for all partitions of a request; answer when all are done.

    `topic_entity` is the name of the response's topic entity. Raises Malformed.
    """
    request = kio_codec.decode_request(context.api_key, context.version, body)
    pending = Pending()
    asked = [(topic, partition) for topic in request.topics for partition in topic.partitions]
    answer = partial(_resolve, pending, maker(context), request, topic_entity, fields_of)
    done = gather(len(asked), answer)
    permitted = from_broker(context)
    for at, (topic, partition) in enumerate(asked):
        key = ShareKey(request.group_id, id_of(topic), partition.partition)
        try:
            if not permitted:
                raise authorization_failed(CLUSTER_ACTION.kind)
            _ask(context, key, question_of(key, partition), partial(done, at))
        except ApiError as error:
            done(at, error)
    return pending


def _ask(
    context: RequestContext, key: ShareKey, question: Question, done: Callable[[StateAnswer], None]
) -> None:
    if not key.group or key.topic_id == NO_ID or key.partition < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    states = context.coordinators.share.states
    states.led.of(key.coordinated_by)  # raises ApiError unless led here, and loaded
    put(states, question, done)


def _resolve(
    pending: Pending,
    make: Make,
    request: Entity,
    topic_entity: str,
    fields_of: FieldsOf,
    answers: dict[int, StateAnswer],
) -> None:
    if pending.done:
        return
    numbers = iter(range(len(answers)))
    results = tuple(
        make(
            topic_entity,
            topic_id=topic.topic_id,
            partitions=tuple(
                _result(make, partition, answers[next(numbers)], fields_of)
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    pending.resolve(kio_codec.encode_body(make(None, results=results)))


def _result(make: Make, partition: Entity, answer: StateAnswer, fields_of: FieldsOf) -> Entity:
    error = answer if isinstance(answer, ApiError) else None
    return make(
        "PartitionResult",
        partition=partition.partition,
        **{
            "error_code": ErrorCode.NONE if error is None else error.code,
            "error_message": None if error is None else error.message,
            **fields_of(make, answer),
        },
    )


def nothing_more(make: Make, answer: StateAnswer) -> dict[str, Any]:
    """Return an empty dict: the answer has no fields but the error code."""
    return {}
