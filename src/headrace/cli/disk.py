"""`headrace disk`: what topics and directories take of the brokers' disks."""

from typing import NamedTuple

from headrace.cli.shared.broker_options import BrokerOptions, Json
from headrace.cli.shared.output import note, print_json, print_line, print_table
from headrace.client.replicas import ReplicaLog, log_dirs
from headrace.client.sync import run
from headrace.client.transport import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024


class Replica(NamedTuple):
    """One replica and where it lies."""

    broker: int
    partition: TopicPartition
    log: ReplicaLog


def disk(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> int:  # noqa: B008 - a frozen value
    """Show how much of the brokers' disks each topic and directory takes."""
    replicas: list[Replica] = []
    silent: list[int] = []
    with cluster.client() as client:
        for broker in sorted(run(client.metadata([])).brokers):
            try:
                found = run(log_dirs(client, broker))
            except (ApiError, ClientError) as error:
                # The others' sizes are worth showing; what is missing is said.
                silent.append(broker)
                note(f"broker {broker} does not say: {error}")
                continue
            replicas += [Replica(broker, partition, log) for partition, log in found.items()]
    topics, directories = _topics(replicas), _directories(replicas)
    if json:
        print_json({"topics": topics, "directories": directories, "silent_brokers": silent})
    else:
        _show(topics, directories)
    return 1 if silent else 0


Row = dict[str, str | int]


def _topics(replicas: list[Replica]) -> list[Row]:
    names = sorted({replica.partition.topic for replica in replicas})
    rows: list[Row] = []
    for name in names:
        of_topic = [replica for replica in replicas if replica.partition.topic == name]
        rows.append(
            {
                "topic": name,
                "bytes": sum(replica.log.size for replica in of_topic),
                "partition_count": len({replica.partition for replica in of_topic}),
                "replica_count": len(of_topic),
            }
        )
    return sorted(rows, key=_size, reverse=True)


def _directories(replicas: list[Replica]) -> list[Row]:
    places = sorted({(replica.broker, replica.log.directory) for replica in replicas})
    rows: list[Row] = []
    for broker, directory in places:
        sizes = [
            replica.log.size
            for replica in replicas
            if (replica.broker, replica.log.directory) == (broker, directory)
        ]
        rows.append(
            {
                "broker": broker,
                "directory": directory,
                "bytes": sum(sizes),
                "replica_count": len(sizes),
            }
        )
    return sorted(rows, key=_size, reverse=True)


def _size(row: Row) -> int:
    return int(row["bytes"])


def _show(topics: list[Row], directories: list[Row]) -> None:
    print_table(
        ("topic", "size", "partitions", "replicas"),
        [
            (row["topic"], human(_size(row)), row["partition_count"], row["replica_count"])
            for row in topics
        ],
    )
    print_line("")
    print_table(
        ("broker", "directory", "size", "replicas"),
        [
            (row["broker"], row["directory"], human(_size(row)), row["replica_count"])
            for row in directories
        ],
    )


def human(size: int) -> str:
    """Return a number of bytes as people read it: `1.5 MiB`."""
    amount, unit = float(size), 0
    while round(amount, 1) >= _UNIT and unit < len(_UNITS) - 1:
        amount, unit = amount / _UNIT, unit + 1
    return f"{size} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
