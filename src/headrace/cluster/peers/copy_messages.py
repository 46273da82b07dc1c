"""Questions about copies of settled positions as messages: CopySettled, API key 20003."""

from collections.abc import Sequence

from headrace.client.calls.call import error_code
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.queues.stores.copies.messages import CopyAnswer, CopyQuestion
from headrace.queues.stores.log.settled_state import FrameName
from headrace.wire.kafka.api import ApiKey


def copy_call(own: BrokerId, questions: Sequence[CopyQuestion]) -> PeerCall[Sequence[CopyAnswer]]:
    """Return the request of broker `own` with questions; it returns their answers in order."""

    def parse(response: Fields) -> Sequence[CopyAnswer]:
        code = error_code(response["errorCode"])
        if code is not ErrorCode.NONE:
            raise ApiError(code)
        answers = [_answer_of(fields) for fields in response["partitions"]]
        if len(answers) != len(questions):
            raise Malformed(f"{len(answers)} answers to {len(questions)} questions")
        return answers

    partitions = [_fields_of_question(question) for question in questions]
    fields = {"brokerId": own, "partitions": partitions}
    return PeerCall(ApiKey.COPY_SETTLED, fields, parse)


def _fields_of_question(question: CopyQuestion) -> Fields:
    return {
        "topicName": question.partition.topic,
        "topicId": question.topic_id,
        "partitionIndex": question.partition.partition,
        "leaderEpoch": question.leader_epoch,
        "followsEpoch": question.follows.leader_epoch,
        "followsNumber": question.follows.number,
        "lastEpoch": question.last.leader_epoch,
        "lastNumber": question.last.number,
        "wholeBytes": question.whole_bytes,
        "position": question.position,
        "readFrom": question.read_from,
        "content": question.content,
    }


def question_of(fields: Fields) -> CopyQuestion:
    """Return the question of a request's partition."""
    return CopyQuestion(
        TopicPartition(fields["topicName"], fields["partitionIndex"]),
        fields["topicId"],
        fields["leaderEpoch"],
        fields["content"],
        FrameName(fields["followsEpoch"], fields["followsNumber"]),
        FrameName(fields["lastEpoch"], fields["lastNumber"]),
        fields["wholeBytes"],
        fields["position"],
        fields["readFrom"],
    )


def fields_of_answer(answer: CopyAnswer) -> Fields:
    """Return the fields of an answer."""
    return {
        "errorCode": answer.error,
        "lastEpoch": answer.last.leader_epoch,
        "lastNumber": answer.last.number,
        "partEnd": answer.part_end,
        "fileBytes": answer.file_bytes,
        "content": answer.content,
    }


def _answer_of(fields: Fields) -> CopyAnswer:
    return CopyAnswer(
        error_code(fields["errorCode"]),
        FrameName(fields["lastEpoch"], fields["lastNumber"]),
        fields["partEnd"],
        fields["fileBytes"],
        fields["content"],
    )
