"""`headrace disk`: disk usage of topics and log directories."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.client.admin.replicas import (
    ReplicaLog,
    StrayDirectory,
    directories,
    stray_logs,
)
from headrace.client.log_directories import (
    Directory,
    LowDirectory,
    low_directories,
)
from headrace.client.sync import run
from headrace.client.transport.port import ClientError
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.directory_messages import failed_message, low_message
from headrace.terminal.output import note, print_json, print_line, print_table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024


class Replica(NamedTuple):
    """A replica, its broker and its size."""

    broker: int
    partition: TopicPartition
    log: ReplicaLog


def disk(*, json: Json = False, cluster: BrokerOptions = BrokerOptions()) -> int:  # noqa: B008 - a frozen value
    """Show how much of the brokers' disks each topic and directory takes."""
    places: list[Directory] = []
    strays: list[tuple[int, StrayDirectory]] = []
    silent: list[int] = []
    with cluster.client() as client:
        for broker in sorted(run(client.metadata([])).brokers):
            try:
                found = run(directories(client, broker))
                set_aside = run(stray_logs(client, broker))
            except (ApiError, ClientError) as error:
                # The other brokers' sizes are still shown, with a note on the missing one.
                silent.append(broker)
                note(f"broker {broker} does not say: {error}")
                continue
            places += [Directory(broker, directory) for directory in found]
            strays += [(broker, stray) for stray in set_aside]
        low = low_directories(client, places)
    topics, rows = _topics(_replicas(places)), _directories(places, low)
    if json:
        answer = {"topics": topics, "directories": rows, "silent_brokers": silent}
        print_json({**answer, "stray_logs": _strays(strays)})
    else:
        _show(topics, rows, _strays(strays))
    for message in (failed_message(places), low_message(low)):
        if message:
            note(message)
    return 1 if silent or any(row["state"] != OK for row in rows) else 0


Row = dict[str, str | int | None]
OK, FAILED, LOW = "ok", "failed", "low"
"""States of a log directory; `low`: less free space than required, so it refuses records."""
_STATES = (FAILED, LOW, OK)
"""The order in which directories are shown."""


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


def _replicas(places: list[Directory]) -> list[Replica]:
    return [
        Replica(broker, partition, log)
        for broker, directory in places
        for partition, log in directory.logs.items()
    ]


def _directories(places: list[Directory], low: Sequence[LowDirectory]) -> list[Row]:
    rows: list[Row] = []
    refusing = {(each.place.broker, each.place.log_dir.path) for each in low}
    for broker, directory in sorted(places, key=lambda place: (place[0], place[1].path)):
        rows.append(
            {
                "broker": broker,
                "directory": directory.path,
                "state": FAILED
                if directory.failed
                else (LOW if (broker, directory.path) in refusing else OK),
                "bytes": sum(log.size for log in directory.logs.values()),
                "replica_count": len(directory.logs),
                "free_bytes": directory.free if directory.free >= 0 else None,
            }
        )
    # Those that need an operator come first.
    return sorted(rows, key=lambda row: (_STATES.index(str(row["state"])), -_size(row)))


def _strays(strays: list[tuple[int, StrayDirectory]]) -> list[Row]:
    return [
        {"broker": broker, "directory": f"{stray.log_dir}/{stray.name}", "bytes": stray.size}
        for broker, stray in sorted(strays)
    ]


def _size(row: Row) -> int:
    return int(row["bytes"] or 0)


def _show(topics: list[Row], directories: list[Row], strays: list[Row]) -> None:
    print_table(
        ("topic", "size", "partitions", "replicas"),
        [
            (row["topic"], human(_size(row)), row["partition_count"], row["replica_count"])
            for row in topics
        ],
    )
    print_line("")
    print_table(
        ("broker", "directory", "state", "size", "replicas", "free"),
        [
            (
                row["broker"],
                row["directory"],
                row["state"],
                human(_size(row)),
                row["replica_count"],
                None if row["free_bytes"] is None else human(int(row["free_bytes"])),
            )
            for row in directories
        ],
    )
    if strays:
        print_line("")
        print_table(
            ("broker", "set aside, not served", "size"),
            [(row["broker"], row["directory"], human(_size(row))) for row in strays],
        )


def human(size: int) -> str:
    """Return a number of bytes with a binary unit: `1.5 MiB`."""
    amount, unit = float(size), 0
    while round(amount, 1) >= _UNIT and unit < len(_UNITS) - 1:
        amount, unit = amount / _UNIT, unit + 1
    return f"{size} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
