"""Brokers on a ZooKeeper that encrypt and authenticate what they say to each other."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.config.authentication.jaas import PLAIN_MODULE, SCRAM_MODULE
from headrace.security.sasl.sasl import Mechanism
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.processes.process import HEADRACE, free_port
from tests.support.security.certificates import Authority

BROKER, BROKERS_PASSWORD = "broker", "among-brokers-417"
ALICE, ALICES_PASSWORD = "alice", "of-alice-258"
MECHANISM = Mechanism.SCRAM_SHA_512


def jaas_key(mechanism: Mechanism) -> str:
    """The setting by which a broker says who it is to the others."""
    return f"listener.name.brokers.{mechanism.lower()}.sasl.jaas.config"


JAAS = jaas_key(MECHANISM)


def jaas(password: str, user: str = BROKER, mechanism: Mechanism = MECHANISM) -> str:
    """The line of it; by PLAIN it says, too, who may come."""
    who = f'username="{user}" password="{password}"'
    if mechanism is Mechanism.PLAIN:
        return f'{PLAIN_MODULE} required {who} user_{user}="{password}";'
    return f"{SCRAM_MODULE} required {who};"


def add_user(connect: str, user: str, password: str, mechanism: Mechanism = MECHANISM) -> None:
    """Have a user in ZooKeeper before any broker is there, as an operator does."""
    command = [str(HEADRACE), "user", "create", user, "--zookeeper", connect]
    command += ["--mechanism", mechanism, "--password-file=-"]
    done = subprocess.run(
        command, input=f"{password}\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


class SecuredCluster:
    """A cluster with three listeners a broker, and what their clients need.

    PLAINTEXT is where the kits look, BROKERS (`protocol`) is among brokers, CLIENTS is SASL_SSL.
    """

    def __init__(
        self,
        place: Path,
        hosts: str,
        count: int = 3,
        protocol: str = "SASL_SSL",
        each: Callable[[int], dict[str, Any]] | None = None,
        between_brokers: Mechanism = MECHANISM,
        **settings: Any,
    ) -> None:
        """`between_brokers`: the mechanism by which they authenticate to each other."""
        place.mkdir(exist_ok=True)
        self.authority = Authority(place)
        certificate = self.authority.sign("brokers", "/CN=broker")
        self.brokers = BrokerCluster(place, hosts, count, **settings)
        if between_brokers is not Mechanism.PLAIN:
            add_user(self.brokers.connect, BROKER, BROKERS_PASSWORD, between_brokers)
        self._ports = []
        for number, broker in enumerate(self.brokers.brokers):
            self._ports.append(free_port())
            broker.settings |= {
                "listeners": f"PLAINTEXT://{broker.bootstrap},BROKERS://127.0.0.1:{free_port()},"
                f"CLIENTS://127.0.0.1:{self._ports[-1]}",
                "listener.security.protocol.map":
                    f"PLAINTEXT:PLAINTEXT,BROKERS:{protocol},CLIENTS:SASL_SSL",
                "inter.broker.listener.name": "BROKERS",
                "sasl.enabled.mechanisms": MECHANISM,
                "listener.name.brokers.sasl.enabled.mechanisms": between_brokers,
                "sasl.mechanism.inter.broker.protocol": between_brokers,
                jaas_key(between_brokers): jaas(BROKERS_PASSWORD, mechanism=between_brokers),
                "ssl.keystore.location": certificate.both,
                "ssl.truststore.location": self.authority.certificate,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": f"User:{BROKER};User:CN=broker;User:ANONYMOUS",
                **(each(number) if each else {}),
            }  # fmt: skip

    def client(self, number: int | None = None, user: str = ALICE,
               password: str = ALICES_PASSWORD) -> dict[str, Any]:  # fmt: skip
        """What librdkafka needs to come by SASL_SSL, to all brokers or to one."""
        ports = self._ports if number is None else [self._ports[number]]
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.certificate),
            "sasl.mechanism": str(MECHANISM),
            "sasl.username": user,
            "sasl.password": password,
        }
