"""`AlarmLinks`: this broker's alarms sent to other brokers, without a retry, and theirs decoded."""

from collections.abc import Sequence

from headrace.client.calls.call import check
from headrace.client.transport.port import Address
from headrace.cluster.peers.conversation import Conversation, Limits, one_request
from headrace.cluster.peers.peer_call import Fields, PeerCall
from headrace.cluster.peers.remote_peers import RemotePeers
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.vhosts.shared_alarms import Alarm
from headrace.wire.kafka.api import ApiKey

REQUEST_SECONDS_MAX = 5.0
"""Seconds after which a request without an answer has failed."""
_LIMITS = Limits(questions_max=1)


class AlarmLinks(RemotePeers[Conversation[Alarm, None]]):
    """Conversations with the brokers of a cluster. On the deciding thread."""

    def send(self, broker: BrokerId, alarm: Alarm, done: Done[ApiError | None]) -> None:
        """Send an alarm of this broker to another one, once. Implements `shared_alarms.Send`."""
        conversation = self._peers.to(broker)
        if conversation is None:
            self._refuse(broker, done)
        else:
            conversation.ask(alarm, done)

    def _begin(self, address: Address) -> Conversation[Alarm, None]:
        own = self._broker.broker_id

        def call(alarms: Sequence[Alarm]) -> PeerCall[Sequence[None]]:
            (alarm,) = alarms
            fields = {
                "brokerId": own,
                "brokerEpoch": alarm.epoch,
                "number": alarm.number,
                "low": sorted(alarm.low),
            }
            return PeerCall(ApiKey.NOTE_ALARM, fields, _answered)

        peer = self._peer(address, "alarms", REQUEST_SECONDS_MAX)
        return Conversation(peer, one_request(call), self._run, limits=_LIMITS)


def alarm_of(request: Fields) -> tuple[BrokerId, Alarm]:
    """Return the broker and its alarm that a request names."""
    alarm = Alarm(request["brokerEpoch"], request["number"], frozenset(request["low"]))
    return BrokerId(request["brokerId"]), alarm


def _answered(response: Fields) -> Sequence[None]:
    check(response["errorCode"])
    return [None]
