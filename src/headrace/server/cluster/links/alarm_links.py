"""`AlarmLinks`: this broker's alarms sent to other brokers, without a retry, and theirs decoded."""

from collections.abc import Sequence
from functools import partial

from headrace.broker.broker import Broker
from headrace.client.calls.call import check
from headrace.client.transport.peer import Peer, fixed
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, Run, one_request
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.registrations import RegisteredPeers
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.vhosts.shared_alarms import Alarm
from headrace.wire.kafka.api import ApiKey

REQUEST_SECONDS_MAX = 5.0
"""Seconds after which a request without an answer has failed."""
_LIMITS = Limits(questions_max=1)


class AlarmLinks:
    """Conversations with the brokers of a cluster. On the deciding thread."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """Create without connections.

        `listener`: name of the inter-broker listener; `run` starts a task on the event loop.
        """
        self._broker = broker
        self._clients = clients
        self._run = run
        self._peers = RegisteredPeers(broker.image, listener, self._begin)

    def send(self, broker: BrokerId, alarm: Alarm, done: Done[ApiError | None]) -> None:
        """Send an alarm of this broker to another one, once. Implements `shared_alarms.Send`."""
        conversation = self._peers.to(broker)
        if conversation is None:
            error = ApiError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker} is not registered")
            self._broker.clock.call_later(0, partial(done, error))
        else:
            conversation.ask(alarm, done)

    def close(self) -> None:
        """Close all connections."""
        self._peers.close()

    def _begin(self, address: Address) -> Conversation[Alarm, None]:
        own = self._broker.broker_id
        client = self._clients.make(
            f"broker-{own}-alarms", request_timeout_seconds=REQUEST_SECONDS_MAX
        )

        def call(alarms: Sequence[Alarm]) -> PeerCall[Sequence[None]]:
            (alarm,) = alarms
            fields = {
                "brokerId": own,
                "brokerEpoch": alarm.epoch,
                "number": alarm.number,
                "low": sorted(alarm.low),
            }
            return PeerCall(ApiKey.NOTE_ALARM, fields, _answered)

        return Conversation(
            Peer(client, fixed(address)), one_request(call), self._run, limits=_LIMITS
        )


def alarm_of(request: Fields) -> tuple[BrokerId, Alarm]:
    """Return the broker and its alarm that a request names."""
    alarm = Alarm(request["brokerEpoch"], request["number"], frozenset(request["low"]))
    return BrokerId(request["brokerId"]), alarm


def _answered(response: Fields) -> Sequence[None]:
    check(response["errorCode"])
    return [None]
