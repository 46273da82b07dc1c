"""Assembly of the RocketMQ frontend of a broker; `server.frontends` imports this file by name."""

from typing import Protocol

from headrace.broker.broker import Broker
from headrace.cluster.controller_port import ControllerPort
from headrace.config.listeners import parse_address
from headrace.coordination.coordinators import Coordinators
from headrace.frontends.rocketmq.administration.operations import operations_of
from headrace.frontends.rocketmq.administration.stored_configs import RemotingConfigs
from headrace.frontends.rocketmq.partition_numbers import PartitionNumbers
from headrace.frontends.rocketmq.serving import RemotingSettings, ServedBroker
from headrace.frontends.rocketmq.session import RemotingFrontend
from headrace.model.errors import ConfigError
from headrace.net.write_pass import WritePass, Writes
from headrace.operations.registry import Operations
from headrace.ports.store import Store
from headrace.subscriptions.new_groups import ZeroOffsetRule
from headrace.wire.rocketmq.settings import RocketmqKeys


class RemotingParts(Protocol):
    """The objects that the frontend is made of. Implemented by `server.frontends.Parts`."""

    @property
    def broker(self) -> Broker:
        """The broker whose clients are served."""

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators, of which groups keep the offsets."""

    @property
    def writes(self) -> Writes:
        """The writes of a pass, gathered until its end."""

    @property
    def controller(self) -> ControllerPort:
        """The controller, which creates topics."""

    @property
    def operations(self) -> Operations:
        """Registry for the operations of administrators."""

    @property
    def store(self) -> Store | None:
        """The open metadata store, which has the partitions' numbers; None: not available."""


def _address(text: str) -> tuple[str, int] | None:
    try:
        return parse_address(text) if text else None
    except ValueError as error:
        raise ConfigError(f"rocketmq.advertised.address: {error}") from error


def frontend(parts: RemotingParts) -> RemotingFrontend:
    """Return the RocketMQ frontend; raise ConfigError if the broker belongs to a cluster."""
    config = parts.broker.config
    if parts.store is None or config.zookeeper_connect:
        raise ConfigError(
            "listeners: a ROCKETMQ listener needs a single broker, and zookeeper.connect names a"
            " cluster: remove the ROCKETMQ listener or zookeeper.connect"
        )
    keys = RocketmqKeys.of(config.values)
    settings = RemotingSettings(
        keys.rocketmq_cluster_name,
        keys.rocketmq_region_id,
        _address(keys.rocketmq_advertised_address),
        ZeroOffsetRule(keys.rocketmq_zero_offset_rule),
        keys.rocketmq_zero_offset_memory_bytes,
        keys.rocketmq_default_topic_queues,
        keys.rocketmq_server_side_reset,
    )
    broker = ServedBroker(
        parts.broker,
        parts.controller,
        parts.coordinators,
        PartitionNumbers(parts.store, parts.broker.clock),
        RemotingConfigs.of(parts.store),
        settings,
    )
    parts.operations.add(operations_of(broker))
    return RemotingFrontend(broker, WritePass(parts.writes))
