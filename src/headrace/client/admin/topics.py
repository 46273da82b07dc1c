"""Topics and configurations: create, alter, describe, delete.

Every function raises ApiError with the broker's own error message if the broker refuses.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check
from headrace.client.client import Client
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ApiKey

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operation codes of IncrementalAlterConfigs."""

_SOURCES = {
    1: "topic",
    2: "dynamic broker",
    3: "dynamic default",
    4: "static",
    5: "default",
    7: "client metrics",
    8: "group",
}


class ConfigEntry(NamedTuple):
    """A configuration entry of a topic, broker, group or client metrics subscription."""

    name: str
    value: str | None
    source: str
    """Where the value comes from: a value of `_SOURCES`, else `other`."""
    read_only: bool
    sensitive: bool

    @property
    def is_own(self) -> bool:
        """Whether the value was set dynamically on the topic or broker, not in a file or by
        default."""
        return self.source in {"topic", "dynamic broker", "dynamic default"}


def _timeout(client: Client) -> timedelta:
    return timedelta(seconds=client.request_timeout_seconds)


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic; -1 for `partitions` or `replication_factor` uses the broker's default."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        own = tuple(
            maker.part("CreatableTopicConfig", name=key, value=value)
            for key, value in (configs or {}).items()
        )
        topic = maker.part(
            "CreatableTopic",
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=(),
            configs=own,
        )
        return maker.request(topics=(topic,), timeout=_timeout(client), validate_only=validate_only)

    def parse(response: Any) -> None:  # noqa: ANN401
        for topic in response.topics:
            check(topic.error_code, topic.error_message)

    await client.ask_controller(ColdCall(ApiKey.CREATE_TOPICS, build, parse, versions=(4, 7)))


async def delete_topic(client: Client, name: str) -> None:
    """Delete a topic and all its records; ApiError if it does not exist."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(
            topics=(maker.part("DeleteTopicState", name=name, topic_id=None),)
            if maker.version >= 6
            else (),
            topic_names=(name,),
            timeout=_timeout(client),
        )

    def parse(response: Any) -> None:  # noqa: ANN401
        for resource_result in response.responses:
            # UNKNOWN_TOPIC is final here and not retried, although another client may have deleted
            # it.
            check(resource_result.error_code, getattr(resource_result, "error_message", None))

    call = ColdCall(ApiKey.DELETE_TOPICS, build, parse)
    known = await client.metadata([name])
    topic = known.topics.get(name)
    if topic is not None:
        check(topic.error_code, f"topic {name}")
    await client.ask_controller(call)


async def create_partitions(client: Client, name: str, count: int) -> None:
    """Increase a topic's partition count to `count`."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        topic = maker.part("CreatePartitionsTopic", name=name, count=count, assignments=None)
        return maker.request(topics=(topic,), timeout=_timeout(client), validate_only=False)

    def parse(response: Any) -> None:  # noqa: ANN401
        for result in response.results:
            check(result.error_code, result.error_message)

    await client.ask_controller(ColdCall(ApiKey.CREATE_PARTITIONS, build, parse))


async def topic_values(client: Client, topics: Iterable[str], key: str) -> dict[str, str]:
    """Return the value of configuration `key` by topic; topics that return an error are left
    out."""
    named = sorted(topics)

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(
            resources=tuple(
                maker.part(
                    "DescribeConfigsResource",
                    resource_type=TOPIC_RESOURCE,
                    resource_name=name,
                    configuration_keys=(key,),
                )
                for name in named
            )
        )

    def parse(response: Any) -> dict[str, str]:  # noqa: ANN401
        return {
            result.resource_name: config.value
            for result in response.results
            if not result.error_code
            for config in result.configs
            if config.name == key and config.value is not None
        }

    return await client.ask_any(ColdCall(ApiKey.DESCRIBE_CONFIGS, build, parse))


async def describe_configs(
    client: Client, resource: int, name: str, keys: Sequence[str] | None = None
) -> list[ConfigEntry]:
    """Return configuration entries of a resource, sorted by name; `keys` None: all of them."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        wanted = maker.part(
            "DescribeConfigsResource",
            resource_type=resource,
            resource_name=name,
            configuration_keys=None if keys is None else tuple(keys),
        )
        return maker.request(resources=(wanted,))

    def parse(response: Any) -> list[ConfigEntry]:  # noqa: ANN401
        entries = []
        for result in response.results:
            check(result.error_code, result.error_message)
            entries += [
                ConfigEntry(
                    config.name,
                    config.value,
                    _SOURCES.get(int(config.config_source), "other"),
                    config.read_only,
                    config.is_sensitive,
                )
                for config in result.configs
            ]
        return sorted(entries)

    call = ColdCall(ApiKey.DESCRIBE_CONFIGS, build, parse)
    if resource != BROKER_RESOURCE or not name:
        return await client.ask_any(call)
    return await client.ask(await client.broker(int(name)), call)


async def configured_names(client: Client, resource: int) -> list[str]:
    """Return the names of groups or client metrics subscriptions with configurations (KIP-1142)."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        return maker.request(resource_types=(resource,))

    def parse(response: Any) -> list[str]:  # noqa: ANN401
        check(response.error_code)
        return sorted(str(found.resource_name) for found in response.config_resources)

    call = ColdCall(ApiKey.LIST_CONFIG_RESOURCES, build, parse, versions=(1, 1))
    return await client.ask_any(call)


async def alter_configs(
    client: Client,
    resource: int,
    name: str,
    *,
    set_: Mapping[str, str] | None = None,
    delete: Sequence[str] = (),
) -> None:
    """Set the configurations `set_` and remove those in `delete` of a resource; the rest stays."""

    def build(maker: Maker) -> Any:  # noqa: ANN401
        changes = [
            maker.part("AlterableConfig", name=key, config_operation=SET, value=value)
            for key, value in (set_ or {}).items()
        ] + [
            maker.part("AlterableConfig", name=key, config_operation=DELETE, value=None)
            for key in delete
        ]
        wanted = maker.part(
            "AlterConfigsResource",
            resource_type=resource,
            resource_name=name,
            configs=tuple(changes),
        )
        return maker.request(resources=(wanted,), validate_only=False)

    def parse(response: Any) -> None:  # noqa: ANN401
        for resource_result in response.responses:
            check(resource_result.error_code, resource_result.error_message)

    call = ColdCall(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, parse)
    if resource == BROKER_RESOURCE and name:
        await client.ask(await client.broker(int(name)), call)
    else:
        await client.ask_controller(call)


def is_missing(code: ErrorCode) -> bool:
    """Return whether an error code means that the topic does not exist."""
    return code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
