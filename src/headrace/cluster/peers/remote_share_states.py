"""`RemoteShareStates`: requests to the brokers that store share-group state (KIP-932).

API keys 83 to 87.

Questions of one kind and group that are asked in one turn of the event loop share a request. Up to
1000 requests are in flight at once; a broker answers them in order.
"""

from headrace.broker.broker import Broker
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, Run, one_request
from headrace.cluster.peers.registrations import RegisteredPeers
from headrace.cluster.peers.share_state_calls import call_of
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import Answer, Question
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done

LIMITS = Limits(requests_max=1000, questions_max=100)
ANSWER_SECONDS_BEYOND = 5.0
"""Seconds added to `share.coordinator.write.timeout.ms` to give the timeout of a request."""


class RemoteShareStates:
    """Requests to other share coordinators.

    Implements `coordination.share.all_share_states.OtherStates`.
    """

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener. `run` starts a task on the event loop.
        """
        self._broker = broker
        self._clients = clients
        self._run = run
        self._peers = RegisteredPeers(broker.image, listener, self._begin)

    def close(self) -> None:
        """Close all connections; each question without an answer ends with NETWORK_EXCEPTION."""
        self._peers.close()

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
        client = self._clients.make(
            f"broker-{self._broker.broker_id}-share",
            request_timeout_seconds=wait_seconds + ANSWER_SECONDS_BEYOND,
        )
        return Conversation(
            Peer(client, fixed(address)),
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
