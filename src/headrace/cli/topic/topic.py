"""`headrace topic`: create, list, describe, alter and delete topics."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.topic.offsets import offsets, trim
from headrace.cli.topic.reserved import note_reserved
from headrace.client.admin import topics as admin
from headrace.client.calls.metadata import Metadata, TopicMetadata
from headrace.client.calls.offsets import EARLIEST, LATEST, list_offsets
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.log.text_files import encode_uuid
from headrace.model import nouns
from headrace.model.errors import BEING_DELETED, ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json, setting_pairs
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.failure import CommandError, UsageError, not_found
from headrace.terminal.name_patterns import Regex, confirmed_matching, matching, some_matching
from headrace.terminal.output import counted, note, print_json, print_line, print_table
from headrace.terminal.per_name_outcomes import describe_each, do_to_each

app = App(name="topic", help="Create, list, describe, alter, trim and delete topics.")

app.command(
    "headrace.cli.topic.export:export",
    help="Write the records of a topic to files. A file appears when it is complete.\n\nThe"
    " lines of jsonl are those of headrace consume --json, which headrace produce -f"
    " json reads. For example: headrace topic export orders --to parquet -o"
    " orders.parquet",
)
app.command(offsets)
app.command(trim, alias="trim-prefix")

Partitions = Annotated[
    int | None, Parameter(name=["-p", "--partitions"], help="Number of partitions.")
]
Force = Annotated[
    bool,
    Parameter(name="--force", help="Internal topics too: read the warning first."),
]
_LOST_WITH = {
    nouns.OFFSETS_TOPIC: "the committed offsets of all groups",
    nouns.TRANSACTIONS_TOPIC: "the state of all transactions",
    nouns.SHARE_STATE_TOPIC: "the state of all share groups",
}
"""The state that is lost with each internal topic."""
Configs = Annotated[
    tuple[str, ...],
    Parameter(
        name=["-c", "--topic-config", "--config", "--set", "--add-config"],
        help="A topic setting as key=value; may be given again.",
    ),
]


@app.command
def create(
    *names: str,
    partitions: Partitions = None,
    replicas: Annotated[
        int | None,
        Parameter(
            name=["-r", "--replicas", "--replication-factor"], help="Replicas of each partition."
        ),
    ] = None,
    config: Configs = (),
    if_not_exists: Annotated[bool, Parameter(help="No error if it exists.")] = False,
    topic: Annotated[tuple[str, ...], Parameter(show=False)] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> int:
    """Create topics.

    For example: headrace topic create orders -p 6 -r 3 -c retention.ms=86400000
    """
    configs = setting_pairs("-c", config)
    for flag, number in (("-p", partitions), ("-r", replicas)):
        if number is not None and number < 1:
            raise UsageError(f"{flag} {number}: must be at least 1")
    wanted = _needed(names + topic)
    with cluster.client() as client:

        def act(name: str) -> tuple[bool, str]:
            call = admin.create_topic(
                client,
                name,
                partitions=partitions or -1,
                replication_factor=replicas or -1,
                configs=configs,
            )
            try:
                run(call)
            except ApiError as error:
                there = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
                if not (there and if_not_exists) or error.message == BEING_DELETED:
                    raise _named(error, name) from None
                return False, f"{name} already exists"
            return True, f"created {name}"

        return do_to_each("topic", wanted, "created", act, json=json)


@app.command(name="list", alias="ls")
def list_(
    *names: Annotated[str, Parameter(help="Only these; default: all.")],
    regex: Regex = False,
    internal: Annotated[
        bool, Parameter(name=["-i", "--internal"], help="Internal topics too.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List topics.

    For example: headrace topic list --internal --json; headrace topic list -r 'orders.*'
    """
    with cluster.client() as client:
        known = run(client.metadata())
    topics = known.topics
    if regex:
        chosen = matching(names, topics)
    else:
        chosen = tuple(_existing(known, name).name for name in names)
    # A topic that is named is listed, also if it is internal.
    named = frozenset(chosen if names and not regex else ())
    shown = [
        topics[name]
        for name in (chosen if names else sorted(topics))
        if internal or name in named or not topics[name].internal
    ]
    if json:
        print_json(
            [
                {
                    "topic": topic.name,
                    "topic_id": encode_uuid(topic.topic_id),
                    "partition_count": len(topic.partitions),
                    "replication_factor": _replicas(topic),
                    "internal": topic.internal,
                }
                for topic in shown
            ]
        )
        return
    note_reserved(() if internal or names else topics)
    if not shown:
        return note("no topics; create one with: headrace topic create NAME")
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
        bool, Parameter(name=["-a", "--all"], help="Settings at their defaults too.")
    ] = False,
    regex: Regex = False,
    topic: Annotated[tuple[str, ...], Parameter(show=False)] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Show topics' partitions, offsets and settings.

    For example: headrace topic describe orders --all; headrace topic describe -r 'orders.*'
    """
    wanted = _needed(names + topic)
    with cluster.client() as client:
        known = run(client.metadata())
        if regex:
            wanted = some_matching(wanted, known.topics)
        return describe_each(
            "topic",
            wanted,
            lambda name: _describe(client, _existing(known, name)),
            lambda description: _print_description(description, all_configs=all_configs),
            lambda description: _description_json(description, all_configs=all_configs),
            json=json,
        )


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
        "topic_id": encode_uuid(topic.topic_id),
        "internal": topic.internal,
        "partition_count": len(topic.partitions),
        "replication_factor": _replicas(topic),
        "configs": {
            entry.name: {"value": entry.value, "source": entry.source}
            for entry in description.configs
            if all_configs or entry.is_own
        },
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader if part.leader >= 0 else None,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline_replicas": list(part.offline),
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
            help="A setting to reset to its default; may be given again.",
        ),
    ] = (),
    topic: Annotated[tuple[str, ...], Parameter(show=False)] = (),
    force: Force = False,
    regex: Regex = False,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Add partitions to topics, change their settings; asks for confirmation with -r.

    -r never selects internal topics. For example: headrace topic alter orders -p 12
    -c retention.ms=3600000 -d cleanup.policy; headrace topic alter -r 'trial-.*' -d retention.ms
    """
    configs = setting_pairs("-c", config)
    deleted = [name for text in delete_config for name in text.split(",") if name]
    if partitions is None and not configs and not deleted:
        raise UsageError("nothing to alter: pass -p, -c key=value or -d key")
    wanted = _needed(names + topic)
    with cluster.client() as client:
        known = run(client.metadata())
        if regex:
            wanted = confirmed_matching("Alter", wanted, _own(known), yes=yes)

        def act(name: str) -> tuple[bool, str]:
            described = _existing(known, name)
            grows = partitions is not None and partitions != len(described.partitions)
            if grows and described.internal and not force:
                raise CommandError(
                    f"{name} is internal: with another number of partitions its coordinators no"
                    " longer find their groups and transactions; pass --force to confirm"
                )
            if configs or deleted:
                change = admin.alter_configs(
                    client, admin.TOPIC_RESOURCE, name, set_=configs, delete=deleted
                )
                run(change)
            if grows and partitions is not None:
                run(admin.create_partitions(client, name, partitions))
            return True, f"altered {name}"

        return do_to_each("topic", wanted, "altered", act, json=json)


@app.command(alias="rm")
def delete(
    *names: str,
    if_exists: Annotated[bool, Parameter(help="No error if it does not exist.")] = False,
    force: Force = False,
    regex: Regex = False,
    yes: Yes = False,
    topic: Annotated[tuple[str, ...], Parameter(show=False)] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete topics with all records; asks for confirmation on a terminal, and always with -r.

    -r never selects internal topics. For example: headrace topic delete orders; headrace topic
    delete -r 'trial-.*' --yes
    """
    wanted = _needed(names + topic)
    with cluster.client() as client:
        known = run(client.metadata())
        if regex:
            wanted = confirmed_matching("Delete", wanted, _own(known), yes=yes)
        else:
            confirm_on_terminal(f"Delete {' and '.join(wanted)} with all records?", yes=yes)

        def act(name: str) -> tuple[bool, str]:
            if if_exists and name not in known.topics:
                return False, f"there is no topic {name}"
            if _existing(known, name).internal and not force:
                raise CommandError(
                    f"{name} is internal: deleting it loses"
                    f" {_LOST_WITH.get(name, 'what it keeps')} of"
                    " the whole cluster; pass --force to confirm"
                )
            run(admin.delete_topic(client, name))
            return True, f"deleted {name}"

        return do_to_each("topic", wanted, "deleted", act, json=json)


def _needed(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise UsageError("name at least one topic")
    return names


def _own(known: Metadata) -> list[str]:
    return [name for name, topic in known.topics.items() if not topic.internal]


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
