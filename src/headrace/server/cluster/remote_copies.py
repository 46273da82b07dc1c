"""`RemoteCopies`: requests about copies of settled positions to other brokers, without a retry."""

from collections.abc import Sequence

from headrace.client.calls.call import error_code
from headrace.client.transport.peer import Peer
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.copies.message_fields import answer_of, fields_of_question
from headrace.copies.messages import CopyAnswer, CopyQuestion
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.wire.kafka.api import ApiKey

ANSWER_SECONDS_MAX = 5.0
"""Seconds after which a request without an answer has failed; it is sent again."""
LIMITS = Limits(requests_max=2, questions_max=1)
"""Questions of the conversation are whole requests. The second one is that of a new leader."""

_Questions = Sequence[CopyQuestion]
_Answers = Sequence[CopyAnswer]


class RemoteCopies(RemotePeers[Conversation[_Questions, _Answers]]):
    """Requests of one broker. Implements `copies.messages.CopyTransport`."""

    def ask(self, broker: BrokerId, questions: _Questions, done: Done[_Answers | ApiError]) -> None:
        """Ask a broker once; NETWORK_EXCEPTION: the frames may or may not have been written."""
        conversation = self._peers.to(broker)
        if conversation is None:
            self._refuse(broker, done)
        else:
            conversation.ask(questions, done)

    def _begin(self, address: Address) -> Conversation[_Questions, _Answers]:
        own = self._broker.broker_id

        async def exchange(peer: Peer, asked: Sequence[_Questions]) -> Sequence[_Answers]:
            return [await peer.ask(copy_call(own, asked[0]))]

        to_broker = self._peer(address, "copies", ANSWER_SECONDS_MAX)
        return Conversation(to_broker, exchange, self._run, limits=LIMITS)


def copy_call(own: BrokerId, questions: Sequence[CopyQuestion]) -> PeerCall[Sequence[CopyAnswer]]:
    """Return the request of broker `own` with questions; it returns their answers in order."""

    def parse(response: Fields) -> Sequence[CopyAnswer]:
        code = error_code(response["errorCode"])
        if code is not ErrorCode.NONE:
            raise ApiError(code)
        answers = [answer_of(fields) for fields in response["partitions"]]
        if len(answers) != len(questions):
            raise Malformed(f"{len(answers)} answers to {len(questions)} questions")
        return answers

    partitions = [fields_of_question(question) for question in questions]
    fields = {"brokerId": own, "partitions": partitions}
    return PeerCall(ApiKey.COPY_SETTLED, fields, parse)
