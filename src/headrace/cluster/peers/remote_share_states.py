"""`RemoteShareStates`: requests to the brokers that store share-group state (KIP-932).

API keys 83 to 87.

Questions of one kind and group that are asked in one turn of the event loop share a request. Up to
1000 requests are in flight at once; a broker answers them in order.
"""

from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, one_request
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.cluster.peers.share_state_calls import call_of
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import Answer, Question
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done

LIMITS = Limits(requests_max=1000, questions_max=100)
ANSWER_SECONDS_BEYOND = 5.0
"""Seconds added to `share.coordinator.write.timeout.ms` to give the timeout of a request."""


class RemoteShareStates(RemotePeers[Conversation[Question, Answer]]):
    """Requests to other share coordinators.

    Implements `coordination.share.all_share_states.OtherStates`.
    """

    def ask(self, broker: BrokerId, question: Question, done: Done[Answer]) -> None:
        """Ask `broker` once.

        NETWORK_EXCEPTION: the question may or may not have been carried out.
        """
        conversation = self._peers.to(broker)
        if conversation is None:
            done(ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker} is not registered"))
        else:
            conversation.ask(question, done)

    def _begin(self, address: Address) -> Conversation[Question, Answer]:
        wait_seconds = self._broker.config.share_coordinator_write_timeout_ms / 1000
        return Conversation(
            self._peer(address, "share", wait_seconds + ANSWER_SECONDS_BEYOND),
            one_request(call_of),
            self._run,
            key_of=_key,
            group_of=_group,
            limits=LIMITS,
        )


def _key(question: Question) -> ShareKey:
    return question.key


def _group(question: Question) -> tuple[type[Question], str]:
    return type(question), question.key.group
