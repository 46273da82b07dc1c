"""What share groups ask of the brokers that keep their state (keys 83 to 87, KIP-932).

Questions of one kind about one group that are asked in one turn go in one request; requests do not
wait for each other's answers, which a broker gives in their order.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.client.client import Client
from headrace.client.transport.peer_clients import PeerClients
from headrace.client.transport.port import Address, ClientError
from headrace.cluster.other_brokers.broker_connections import WaysToBrokers
from headrace.cluster.other_brokers.gathered_questions import Run
from headrace.cluster.other_brokers.share_state_calls import call_of
from headrace.coordination.share.questions import Answer, Question
from headrace.model.errors import ApiError, ErrorCode, Malformed
from headrace.model.nouns import BrokerId
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock

if TYPE_CHECKING:
    from headrace.replication.fetch_dependencies import Running

QUESTIONS_MAX = 100
"""Of one request."""
ANSWER_SECONDS_BEYOND = 5.0
"""How much longer than the coordinator waits for its replicas its answer is waited for."""

_Asked = tuple[Question, Done[Answer]]


class RemoteShareStates:
    """`coordination.share.anywhere.OtherStates` over the network."""

    def __init__(self, broker: Broker, listener: str, clients: PeerClients, run: Run) -> None:
        """`listener`: by which brokers reach each other. `run` runs a conversation."""
        self._broker = broker
        self._clients = clients
        self._run = run
        self._ways = WaysToBrokers(broker.image, listener, self._way)

    def close(self) -> None:
        """Ask nothing more; who waits is told so."""
        self._ways.close()

    def ask(self, broker: BrokerId, question: Question, done: Done[Answer]) -> None:
        """Ask `broker` once; NETWORK_EXCEPTION: it may be done, or not."""
        way = self._ways.to(broker)
        if way is None:
            done(ApiError(ErrorCode.NETWORK_EXCEPTION, "the broker is not there"))
        else:
            way.ask(question, done)

    def _way(self, address: Address) -> "_Way":
        wait_seconds = self._broker.config.share_coordinator_write_timeout_ms / 1000
        client = self._clients.make(
            f"broker-{self._broker.broker_id}-share",
            request_timeout_seconds=wait_seconds + ANSWER_SECONDS_BEYOND,
        )
        return _Way(client, address, self._broker.clock, self._run)


class _Request:
    """What one request asks, and who is to be told."""

    __slots__ = ("asked", "running")

    def __init__(self, asked: Sequence[_Asked]) -> None:
        self.asked = asked
        self.running: Running | None = None

    def tell(self, answers: Sequence[Answer]) -> None:
        for (_, done), answer in zip(self.asked, answers, strict=True):
            done(answer)

    def lost(self, why: str) -> None:
        self.tell([ApiError(ErrorCode.NETWORK_EXCEPTION, why)] * len(self.asked))


class _Way:
    """One connection to one registration of a broker. `ways_to_brokers.Closable`."""

    def __init__(self, client: Client, address: Address, clock: Clock, run: Run) -> None:
        self._client = client
        self._address = address
        self._clock = clock
        self._run = run
        self._gathered: dict[tuple[type[Question], str], list[_Asked]] = {}
        """What goes out at the end of this turn."""
        self._requests: set[_Request] = set()
        """What is under way."""
        self._connecting = asyncio.Lock()

    def ask(self, question: Question, done: Done[Answer]) -> None:
        if not self._gathered:
            self._clock.call_later(0, self._send)
        self._gathered.setdefault((type(question), question.key.group), []).append((question, done))

    def close(self) -> None:
        """Ask nothing more; who waits is told so."""
        gathered, self._gathered = self._gathered, {}
        requests, self._requests = self._requests, set()
        self._client.close()
        for request in (*requests, *map(_Request, gathered.values())):
            if request.running is not None:
                request.running.cancel()
            request.lost(f"{self._address} is asked no more")

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for asked in gathered.values():
            for first in range(0, len(asked), QUESTIONS_MAX):
                request = _Request(asked[first : first + QUESTIONS_MAX])
                self._requests.add(request)
                request.running = self._run(self._converse(request))

    async def _converse(self, request: _Request) -> None:
        call = call_of([question for question, _ in request.asked])
        answers: Sequence[Answer]
        try:
            async with self._connecting:
                link = await self._client.link_to(self._address)
            answers = await self._client.ask(link, call)
        except (ClientError, Malformed) as error:
            self._requests.discard(request)
            request.lost(str(error))
            return
        except ApiError as error:
            answers = [error] * len(request.asked)
        self._requests.discard(request)
        request.tell(answers)
