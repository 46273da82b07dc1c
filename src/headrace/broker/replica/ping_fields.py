"""Pings for the right to lead and their answers as the fields of a message (API key 20004)."""

from collections.abc import Mapping
from typing import Any

from headrace.broker.replica.leading_right import PartitionKey, Ping, PingAnswer
from headrace.model.nouns import BrokerId, LeaderEpoch

Fields = Mapping[str, Any]


def fields_of_ping(own: BrokerId, ping: Ping) -> Fields:
    """Return the fields of a ping from broker `own`."""
    fences = [{**_named(key), "leaderEpoch": epoch} for key, epoch in ping.fences.items()]
    return {
        "brokerId": own,
        "incarnation": ping.incarnation,
        "number": ping.number,
        "fences": fences,
    }


def ping_of(fields: Fields) -> Ping:
    """Return the ping of a request."""
    fences = {_key_of(each): LeaderEpoch(each["leaderEpoch"]) for each in fields["fences"]}
    return Ping(fields["incarnation"], fields["number"], fences)


def fields_of_answer(answer: PingAnswer) -> Fields:
    """Return the fields of an answer, but for its error code."""
    return {
        "incarnation": answer.incarnation,
        "number": answer.number,
        "epochs": [{**_named(key), "leaderEpoch": epoch} for key, epoch in answer.epochs.items()],
        "givenUp": [
            {**_named(key), "homes": sorted(homes)} for key, homes in answer.given_up.items()
        ],
    }


def answer_of(fields: Fields) -> PingAnswer:
    """Return the answer of a response without an error."""
    return PingAnswer(
        fields["incarnation"],
        fields["number"],
        {_key_of(each): LeaderEpoch(each["leaderEpoch"]) for each in fields["epochs"]},
        {_key_of(each): frozenset(map(BrokerId, each["homes"])) for each in fields["givenUp"]},
    )


def _named(key: PartitionKey) -> Fields:
    return {"topicId": key[0], "partitionIndex": key[1]}


def _key_of(fields: Fields) -> PartitionKey:
    return fields["topicId"], fields["partitionIndex"]
