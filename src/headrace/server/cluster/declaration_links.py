"""`DeclarationLinks`: requests about declarations to other brokers, without a retry."""

from collections.abc import Sequence

from headrace.client.calls.call import check
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, Run, one_request
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.vhosts.declarations.log_polls import POLL_SECONDS
from headrace.vhosts.declarations.messages import (
    Answer,
    Command,
    Part,
    Poll,
    answer_of,
    command_fields,
    parts_of,
)
from headrace.wire.kafka.api import ApiKey

COMMAND_SECONDS_MAX = 10.0
"""Seconds after which a command without an answer has failed; it is sent again."""
_COMMANDS = Limits(requests_max=5, questions_max=200)
_POLLS = Limits(requests_max=2, questions_max=1)
"""A poll ends the one before it, which is answered first."""


class _Link:
    """The conversations with one registration of a broker."""

    def __init__(self, own: BrokerId, address: Address, clients: PeerClients, run: Run) -> None:
        self._own = own
        self.commands: Conversation[Command, Answer] = Conversation(
            _peer(clients, address, f"broker-{own}-declarations", COMMAND_SECONDS_MAX),
            one_request(self._commands),
            run,
            limits=_COMMANDS,
        )
        self.polls: Conversation[Poll, Sequence[Part]] = Conversation(
            _peer(clients, address, f"broker-{own}-follows-declarations", 2 * POLL_SECONDS),
            one_request(self._polls),
            run,
            limits=_POLLS,
        )

    def close(self) -> None:
        """Close the connections; each question without an answer ends with NETWORK_EXCEPTION."""
        self.commands.close()
        self.polls.close()

    def _commands(self, commands: Sequence[Command]) -> PeerCall[Sequence[Answer | ApiError]]:
        fields = {
            "brokerId": self._own,
            "commands": [command_fields(command) for command in commands],
        }
        return PeerCall(ApiKey.DECLARE, fields, _answers)

    def _polls(self, polls: Sequence[Poll]) -> PeerCall[Sequence[Sequence[Part]]]:
        (poll,) = polls
        wanted = [{"partitionIndex": each.partition, "offset": each.offset} for each in poll.wanted]
        fields = {"brokerId": self._own, "partitions": wanted, "waits": poll.waits}
        return PeerCall(ApiKey.FOLLOW_DECLARATIONS, fields, _parts)


class DeclarationLinks(RemotePeers[_Link]):
    """Commands and polls of one broker to the others. On the deciding thread."""

    def ask(self, broker: BrokerId, command: Command, done: Done[Answer | ApiError]) -> None:
        """Have a broker carry out a command, once.

        NETWORK_EXCEPTION: it may or may not have been carried out.
        """
        link = self._peers.to(broker)
        if link is None:
            self._refuse(broker, done)
        else:
            link.commands.ask(command, done)

    def poll(self, broker: BrokerId, poll: Poll, done: Done[Sequence[Part] | ApiError]) -> None:
        """Poll a broker once about partitions that it leads."""
        link = self._peers.to(broker)
        if link is None:
            self._refuse(broker, done)
        else:
            link.polls.ask(poll, done)

    def _begin(self, address: Address) -> _Link:
        own = self._broker.broker_id
        return _Link(own, address, self._clients, self._run)


def _peer(clients: PeerClients, address: Address, client_id: str, seconds: float) -> Peer:
    return Peer(clients.make(client_id, request_timeout_seconds=seconds), fixed(address))


def _answers(response: Fields) -> Sequence[Answer | ApiError]:
    check(response["errorCode"])
    return [answer_of(answer) for answer in response["answers"]]


def _parts(response: Fields) -> Sequence[Sequence[Part]]:
    check(response["errorCode"])
    return [parts_of(response["partitions"])]
