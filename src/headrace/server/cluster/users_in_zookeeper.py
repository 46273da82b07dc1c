"""SCRAM users written into ZooKeeper while no broker runs, as by `kafka-configs --zookeeper`.

Brokers that authenticate to each other by SCRAM need their user before the first of them starts.
Running brokers notice the new user at once.
"""

from collections.abc import Mapping

from headrace.broker.quotas import Entity
from headrace.cluster.settings.quota_settings import path_of
from headrace.cluster.store.catalog import Catalog
from headrace.config.broker import BrokerConfig
from headrace.model.errors import ConfigError
from headrace.ports.store import SessionEvents
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import Credential, encode_credential
from headrace.server.real_world import open_zookeeper


async def create_user(
    config: BrokerConfig, user: str, credentials: Mapping[Mechanism, Credential]
) -> bool:
    """Write a new user's credentials into `config.zookeeper_connect`; return False if it has some.

    Nothing is overwritten. Raises ConfigError or StoreError. Blocks until ZooKeeper is connected.
    """
    connect = config.zookeeper_connect
    if connect is None:
        raise ConfigError("zookeeper.connect: name the ZooKeeper that the brokers have")
    store = open_zookeeper(config, connect, SessionEvents())
    is_new = True

    def changed(settings: dict[str, str]) -> dict[str, str] | None:
        nonlocal is_new
        is_new = not any(mechanism in settings for mechanism in Mechanism)
        for mechanism, credential in credentials.items():
            settings[mechanism] = encode_credential(credential)
        return settings if is_new else None

    try:
        catalog = Catalog(store)
        await catalog.prepare()
        await catalog.configs.change(path_of(Entity(user=user)), changed)
    finally:
        await store.close()
    return is_new
