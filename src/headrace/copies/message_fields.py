"""Questions and answers as the fields of a message: CopySettled, API key 20003."""

from collections.abc import Mapping
from typing import Any

from headrace.client.calls.call import error_code
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.delivery.settled_state import FrameName
from headrace.model.nouns import TopicPartition

Fields = Mapping[str, Any]


def fields_of_question(question: CopyQuestion) -> Fields:
    """Return the fields of a question."""
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


def answer_of(fields: Fields) -> CopyAnswer:
    """Return the answer about a response's partition."""
    return CopyAnswer(
        error_code(fields["errorCode"]),
        FrameName(fields["lastEpoch"], fields["lastNumber"]),
        fields["partEnd"],
        fields["fileBytes"],
        fields["content"],
    )
