"""`headrace topic`: create, list, describe, alter, delete."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.broker_options import BrokerOptions, Json, pairs
from headrace.cli.failure import UsageError, not_found
from headrace.cli.output import counted, note, print_json, print_line, print_table
from headrace.client import admin
from headrace.client.client import Client
from headrace.client.metadata import Metadata, TopicMetadata
from headrace.client.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

app = App(
    name="topic",
    help="Create, list, describe, alter and delete topics.",
    default_parameter=Parameter(show_default=False, negative=()),
)

Partitions = Annotated[
    int | None, Parameter(name=["-p", "--partitions"], help="How many partitions.")
]
Configs = Annotated[
    tuple[str, ...],
    Parameter(
        name=["-c", "--topic-config", "--config", "--set", "--add-config"],
        negative=(),
        help="A topic setting as key=value; may be given again.",
    ),
]


@app.command
def create(
    *names: str,
    partitions: Partitions = None,
    replicas: Annotated[
        int | None,
        Parameter(name=["-r", "--replicas", "--replication-factor"], help="Copies of each."),
    ] = None,
    config: Configs = (),
    if_not_exists: Annotated[
        bool, Parameter(negative=(), help="No error where it exists.")
    ] = False,
    topic: Annotated[tuple[str, ...], Parameter(name="--topic", show=False, negative=())] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Create topics."""
    configs = pairs("-c", config)
    for flag, number in (("-p", partitions), ("-r", replicas)):
        if number is not None and number < 1:
            raise UsageError(f"{flag} {number}: must be at least 1")
    with cluster.client() as client:
        answers = []
        for name in _needed(names + topic):
            created = True
            try:
                run(
                    admin.create_topic(
                        client,
                        name,
                        partitions=partitions or -1,
                        replication_factor=replicas or -1,
                        configs=configs,
                    )
                )
            except ApiError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                    raise _named(error, name) from None
                created = False
            answers.append({"topic": name, "created": created})
            if not json:
                print_line(f"created {name}" if created else f"{name} exists already")
        if json:
            print_json(answers)


@app.command(name="list", alias="ls")
def list_(
    *,
    internal: Annotated[
        bool, Parameter(name=["-i", "--internal"], negative=(), help="Internal topics too.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List topics."""
    with cluster.client() as client:
        topics = run(client.metadata()).topics
    shown = [topics[name] for name in sorted(topics) if internal or not topics[name].internal]
    if json:
        print_json(
            [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replicas": _replicas(topic),
                    "internal": topic.internal,
                }
                for topic in shown
            ]
        )
        return
    if not shown:
        note("no topics; create one with: headrace topic create NAME")
        return
    print_table(
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        [[topic.name, len(topic.partitions), _replicas(topic)] for topic in shown],
    )


@dataclass(frozen=True)
class _Description:
    topic: TopicMetadata
    configs: list[admin.ConfigEntry]
    starts: dict[int, int]
    ends: dict[int, int]


@app.command
def describe(
    *names: str,
    all_configs: Annotated[
        bool, Parameter(name=["-a", "--all"], negative=(), help="Settings at their defaults too.")
    ] = False,
    topic: Annotated[tuple[str, ...], Parameter(name="--topic", show=False, negative=())] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Show topics' partitions, offsets and settings."""
    with cluster.client() as client:
        known = run(client.metadata())
        descriptions = [
            _describe(client, _existing(known, name)) for name in _needed(names + topic)
        ]
    if json:
        print_json(
            [
                _description_json(description, all_configs=all_configs)
                for description in descriptions
            ]
        )
        return
    for at, description in enumerate(descriptions):
        if at:
            print_line("")
        _print_description(description, all_configs=all_configs)


def _describe(client: Client, topic: TopicMetadata) -> _Description:
    name = topic.name
    led = [
        TopicPartition(name, partition.partition)
        for partition in topic.partitions
        if partition.leader >= 0
    ]
    starts = run(list_offsets(client, dict.fromkeys(led, EARLIEST)))
    ends = run(list_offsets(client, dict.fromkeys(led, LATEST)))
    return _Description(
        topic,
        run(admin.describe_configs(client, admin.TOPIC_RESOURCE, name)),
        {partition.partition: starts[partition].offset for partition in led},
        {partition.partition: ends[partition].offset for partition in led},
    )


def _description_json(description: _Description, *, all_configs: bool) -> dict[str, object]:
    topic = description.topic
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id.hex(),
        "internal": topic.internal,
        "replicas": _replicas(topic),
        "configs": {
            entry.name: {"value": entry.value, "source": entry.source}
            for entry in description.configs
            if all_configs or entry.is_own
        },
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline": list(part.offline),
                "start_offset": description.starts.get(part.partition),
                "end_offset": description.ends.get(part.partition),
            }
            for part in topic.partitions
        ],
    }


def _print_description(description: _Description, *, all_configs: bool) -> None:
    topic = description.topic
    records = sum(description.ends[at] - description.starts[at] for at in description.ends)
    print_line(
        f"{topic.name}: {counted(len(topic.partitions), 'partition')},"
        f" {counted(_replicas(topic), 'replica')}, {counted(records, 'offset')}"
        + (", internal" if topic.internal else "")
    )
    rows = [
        [entry.name, "***" if entry.sensitive else entry.value, entry.source]
        for entry in description.configs
        if all_configs or entry.is_own
    ]
    if rows:
        print_table(["SETTING", "VALUE", "SOURCE"], rows)
    print_table(
        ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END"],
        [
            [
                part.partition,
                part.leader if part.leader >= 0 else "none",
                part.leader_epoch,
                ",".join(map(str, part.replicas)),
                ",".join(map(str, part.isr)),
                description.starts.get(part.partition),
                description.ends.get(part.partition),
            ]
            for part in topic.partitions
        ],
    )


@app.command(alias=["alter-config", "add-partitions"])
def alter(
    *names: str,
    partitions: Partitions = None,
    config: Configs = (),
    delete_config: Annotated[
        tuple[str, ...],
        Parameter(
            name=["-d", "--delete-config", "--delete"],
            negative=(),
            help="A setting to take back to its default; may be given again.",
        ),
    ] = (),
    topic: Annotated[tuple[str, ...], Parameter(name="--topic", show=False, negative=())] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Grow topics, change their settings."""
    configs = pairs("-c", config)
    deleted = [name for text in delete_config for name in text.split(",") if name]
    if partitions is None and not configs and not deleted:
        raise UsageError("nothing to alter: give -p, -c key=value or -d key")
    with cluster.client() as client:
        known = run(client.metadata())
        wanted = [_existing(known, name) for name in _needed(names + topic)]
        for described in wanted:
            if configs or deleted:
                change = admin.alter_configs(
                    client, admin.TOPIC_RESOURCE, described.name, set_=configs, delete=deleted
                )
                run(change)
            if partitions is not None and partitions != len(described.partitions):
                run(admin.create_partitions(client, described.name, partitions))
            if not json:
                print_line(f"altered {described.name}")
        if json:
            print_json([{"topic": described.name, "altered": True} for described in wanted])


@app.command(alias="rm")
def delete(
    *names: str,
    if_exists: Annotated[
        bool, Parameter(negative=(), help="No error where it is missing.")
    ] = False,
    topic: Annotated[tuple[str, ...], Parameter(name="--topic", show=False, negative=())] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete topics with all their records."""
    with cluster.client() as client:
        known = run(client.metadata())
        answers = []
        for name in _needed(names + topic):
            if if_exists and name not in known.topics:
                answers.append({"topic": name, "deleted": False})
                continue
            _existing(known, name)
            run(admin.delete_topic(client, name))
            answers.append({"topic": name, "deleted": True})
            if not json:
                print_line(f"deleted {name}")
        if json:
            print_json(answers)


def _needed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise UsageError("name at least one topic")
    return names


def _existing(known: Metadata, name: str) -> TopicMetadata:
    topic = known.topics.get(name)
    if topic is None:
        raise not_found("topic", name, sorted(known.topics))
    return topic


def _replicas(topic: TopicMetadata) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _named(error: ApiError, name: str) -> ApiError:
    """Return the same error with the topic's name in its text."""
    text = error.message or error.code.name.lower().replace("_", " ")
    return error if name in text else ApiError(error.code, f"topic {name}: {text}")
