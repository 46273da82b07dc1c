"""Requests to the controller about topics of queues, from any broker: own API key 20007."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from headrace.client.calls.call import check, error_code
from headrace.cluster.controller.controller import Controller
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.topics.creation import NewTopic
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.model.protocols import is_own_state, reserved_topics
from headrace.wire.kafka.api import ApiKey

Outcomes = Sequence[ApiError | None]
"""The errors of topics, in the order in which they were asked for; None: it was done."""


class QueueTopicChanges(NamedTuple):
    """Topics of queues to create and to delete, each independently."""

    created: Sequence[NewTopic] = ()
    """Each has an assignment with the same replicas for all partitions."""
    deleted: Mapping[str, str] = MappingProxyType({})
    """Ids of topics in hexadecimal digits, by their names: a topic with another id stays, and its
    outcome is INCONSISTENT_TOPIC_ID, with that id as its text. Empty: any topic stays."""

    @property
    def names(self) -> list[str]:
        """The topics' names, in the order of the outcomes."""
        return [*(topic.name for topic in self.created), *self.deleted]


async def carry_out(controller: Controller, changes: QueueTopicChanges) -> Outcomes:
    """Change topics as the controller. ApiError: INVALID_TOPIC_EXCEPTION for a client's topic."""
    for name in changes.names:
        if reserved_topics(name) is None or is_own_state(name):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is no topic of a queue")
    outcomes: list[ApiError | None] = []
    if changes.created:
        made = await controller.create_topics(changes.created)
        outcomes += (each if isinstance(each, ApiError) else None for each in made)
    if changes.deleted:
        ids = {name: bytes.fromhex(topic_id) for name, topic_id in changes.deleted.items()}
        deleted = await controller.delete_topics([*ids], ids=ids)
        outcomes += (deleted[name] for name in ids)
    return outcomes


def change_call(own: BrokerId, changes: QueueTopicChanges) -> PeerCall[Outcomes]:
    """Return the request of broker `own` for these changes."""
    fields = {
        "brokerId": own,
        "created": [_created(topic) for topic in changes.created],
        "deleted": [
            {"name": name, "topicId": topic_id} for name, topic_id in changes.deleted.items()
        ],
    }
    return PeerCall(ApiKey.CHANGE_QUEUE_TOPICS, fields, _outcomes)


def changes_of(request: Fields) -> QueueTopicChanges:
    """Return the changes that a request asks for."""
    created = [
        NewTopic(
            topic["name"],
            assignment=dict.fromkeys(range(topic["partitions"]), tuple(topic["replicas"])),
            config={config["name"]: config["value"] for config in topic["configs"]},
        )
        for topic in request["created"]
    ]
    deleted = {topic["name"]: topic["topicId"] for topic in request["deleted"]}
    return QueueTopicChanges(created, deleted)


def outcome_fields(outcomes: Outcomes) -> Fields:
    """Return outcomes as the fields of a response."""
    found = [
        {
            "errorCode": ErrorCode.NONE if error is None else error.code,
            "text": "" if error is None else error.message or "",
        }
        for error in outcomes
    ]
    return {"errorCode": ErrorCode.NONE, "outcomes": found}


def _created(topic: NewTopic) -> Fields:
    return {
        "name": topic.name,
        "partitions": len(topic.assignment),
        "replicas": topic.assignment[0],
        "configs": [{"name": name, "value": value} for name, value in topic.config.items()],
    }


def _outcomes(response: Fields) -> Outcomes:
    check(response["errorCode"])
    return [
        ApiError(error_code(each["errorCode"]), each["text"] or None) if each["errorCode"] else None
        for each in response["outcomes"]
    ]
