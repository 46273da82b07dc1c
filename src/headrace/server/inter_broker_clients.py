"""Connections of this broker to other brokers' listeners: plain text or TLS, SASL or none."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.client.transport.events import Connect, EventLink, EventTransport
from headrace.client.transport.peer_clients import PeerClients, Refusals
from headrace.config.authentication.sasl import BETWEEN_BROKERS, login_problem
from headrace.config.broker import BrokerConfig
from headrace.config.cross_key_rules import problem_line
from headrace.model.errors import ConfigError

if TYPE_CHECKING:
    from headrace.client.transport.credentials import Credentials
    from headrace.ports.network import Network
    from headrace.server.tls_listeners import TlsListeners


class InterBrokerClients:
    """Makes the clients by which one broker connects to the others.

    A peer's refusal of a login or certificate is remembered per listener, for all of its clients.
    """

    def __init__(
        self, config: BrokerConfig, network: "Network", tls: "TlsListeners | None"
    ) -> None:
        """Store the network and the certificates (`tls`, None if no listener speaks TLS)."""
        self._config = config
        self._network = network
        self._tls = tls
        self._refusals: dict[str, Refusals] = {}

    def by(self, listener: str) -> PeerClients:
        """Return the factory of clients that connect to other brokers at the listener of that name.

        Raises ConfigError if this broker's SASL login for that listener is missing or incomplete.
        """
        return PeerClients(
            EventTransport(self._connect_by(listener)),
            self._credentials_at(listener),
            self._refusals.setdefault(listener, _refusals(self._config, listener)),
        )

    def _connect_by(self, listener: str) -> Connect:
        connect, tls = self._network.connect, self._tls
        if tls is None or tls.connecting(listener) is None:
            return connect

        async def encrypted(made: Callable[[], EventLink], host: str, port: int) -> EventLink:
            # The context is fetched for each connection: certificate files may have changed.
            return await connect(made, host, port, tls.connecting(listener))

        return encrypted

    def _credentials_at(self, listener: str) -> "Credentials | None":
        sasl = self._config.sasl.get(listener)
        if sasl is None:
            return None
        from headrace.client.transport.credentials import Credentials
        from headrace.security.sasl.sasl import Mechanism

        mechanism = self._config.sasl_mechanism_inter_broker_protocol
        problem = login_problem(listener, mechanism, sasl)
        if (
            problem is not None
        ):  # a broker with zookeeper.connect has checked it with its configuration
            raise ConfigError(problem_line(*problem))
        return Credentials(Mechanism(mechanism), *sasl.logins[mechanism])


def _refusals(config: BrokerConfig, listener: str) -> Refusals:
    prefix = f"listener.name.{listener.lower()}"
    mechanism = config.sasl_mechanism_inter_broker_protocol.lower()
    return Refusals(
        f"mend username and password in {prefix}.{mechanism}.sasl.jaas.config of this broker, the"
        f" user over there, or {BETWEEN_BROKERS}",
        f"see that {prefix}.ssl.truststore.location has who signed the other broker's certificate,"
        " here and over there, and that the certificate names the host above",
    )
