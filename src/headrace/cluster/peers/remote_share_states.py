"""Questions of share groups to the brokers that store their state (keys 83 to 87, KIP-932).

Questions of one kind about one group that are asked in one turn go in one request; requests do not
wait for each other's answers, which a broker gives in their order.
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
"""How much longer than the coordinator waits for its replicas its answer is waited for."""


class RemoteShareStates:
    """`coordination.share.all_share_states.OtherStates` over the network."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """`listener`: by which brokers reach each other. `run` runs a conversation."""
        self._broker = broker
        self._clients = clients
        self._run = run
        self._peers = RegisteredPeers(broker.image, listener, self._begin)

    def close(self) -> None:
        """Ask nothing more; each asker without an answer is told so."""
        self._peers.close()

    def ask(self, broker: BrokerId, question: Question, done: Done[Answer]) -> None:
        """Ask `broker` once; NETWORK_EXCEPTION: it may be done, or not."""
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
