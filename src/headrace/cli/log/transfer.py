"""`headrace log import` and `export`: copy partitions from and to a Kafka log directory."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headrace.cli.log.tools import broker_runs_on, existing, progress, sums
from headrace.client.sync import run
from headrace.log import file_names, text_files
from headrace.log.directory.state_files.meta_properties import read_identity
from headrace.logtools.transfer import Transfer, TransferError, check_room, empty_partitions
from headrace.logtools.verify import Report
from headrace.logtools.verify.directory import bytes_in, partitions_in
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from headrace.posix.clock import RealRandom
from headrace.posix.disk import RealDisk
from headrace.posix.file_copies import CannotCopy, Copier, Way
from headrace.terminal.broker_options import COMMAND_CONFIG, BrokerOptions, pairs
from headrace.terminal.failure import EXIT_FAILED, CommandError, UsageError
from headrace.terminal.output import note, print_line

Source = Annotated[Path, Parameter(help="The stopped broker's log directory (one of log.dirs).")]
Places = dict[TopicPartition, str]
Ids = Mapping[str, bytes]
_DEFAULT_PARTITIONS = 50


@Parameter(name="*")
@dataclass(frozen=True)
class TransferOptions:
    """Options of both commands: topics, topic ids, the target's brokers."""

    topic: Annotated[
        tuple[str, ...],
        Parameter(name=["-t", "--topic"], help="Only this topic; may be given again."),
    ] = ()
    offsets: Annotated[
        bool,
        Parameter(negative="--no-offsets", help="Copy consumer groups' offsets too."),
    ] = True
    topic_id: Annotated[
        tuple[str, ...],
        Parameter(help="NAME=ID: the topic's id in the target; may be given again."),
    ] = ()
    bootstrap: Annotated[
        str | None,
        Parameter(
            name=["-b", "--bootstrap", "--bootstrap-server"],
            help="The target's brokers (host:port), to get the topics' ids from.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        Parameter(help="A profile with the target's brokers (headrace profile)."),
    ] = None
    command_config: Annotated[
        Path | None,
        Parameter(
            env_var=COMMAND_CONFIG, help="A properties file with client settings for these brokers."
        ),
    ] = None
    reflink: Annotated[
        bool, Parameter(help="Share blocks (btrfs, XFS); same file system only.")
    ] = False

    @property
    def asks(self) -> bool:
        """Whether the target's brokers are asked for topic ids."""
        return self.bootstrap is not None or self.profile is not None


def import_(
    source: Source,
    target: Annotated[Path, Parameter(help="Headrace's log directory, created if missing.")],
    *,
    options: TransferOptions = TransferOptions(),
    link: Annotated[
        bool,
        Parameter(help="Hard-link closed segments; only after a clean stop."),
    ] = False,
) -> int | None:
    """Import the partitions of a stopped Kafka broker (3.x, 4.x) into a Headrace log directory.

    The source is only read. Topic ids stay the same. The result is verified.
    """
    if link and options.reflink:
        raise UsageError("--link and --reflink cannot be combined")
    where = _stopped(source)
    disk = RealDisk(None)
    clean = (where / file_names.CLEAN_SHUTDOWN).exists()
    if link and not clean:
        raise CommandError(
            f"{source}: was not stopped cleanly, so its segments may still change; omit --link"
        )
    chosen = _chosen(disk, where, options, transactions=True)
    with _target(target, where) as into:
        _check_room(disk, chosen, into)
        _check_counts(disk, chosen, into, None)
        way: Way = "link" if link else "reflink" if options.reflink else "copy"
        report = _transfer(disk, where, into, chosen, _ids(options), way, anew=False)
        identity = where / file_names.META_PROPERTIES
        if read_identity(disk, str(into)) is None and identity.exists():
            disk.replace(str(into / file_names.META_PROPERTIES), identity.read_bytes())
    failed = _verdict(report)
    _tell_import(target, chosen, clean=clean)
    return failed


def export(
    source: Source,
    target: Annotated[
        Path,
        Parameter(
            help="A stopped Kafka broker's log directory, or a new one. Topics that exist there and"
            " are empty receive the records."
        ),
    ],
    *,
    options: TransferOptions = TransferOptions(),
) -> int | None:
    """Export the partitions of a stopped Headrace broker into a Kafka log directory (3.x, 4.x).

    The source is only read. Leader epochs start again at 0. A KRaft broker renames partitions with
    an unknown topic id (-stray): create the topics there first. The ids are read from the empty
    partitions in TARGET, from --topic-id or from --bootstrap. The result is verified.
    """
    where = _stopped(source)
    disk = RealDisk(None)
    if not (where / file_names.CLEAN_SHUTDOWN).exists():
        raise CommandError(
            f"{source}: the broker was not stopped cleanly; start it, stop it with SIGTERM, and"
            " try again"
        )
    chosen = _chosen(disk, where, options, transactions=False)
    with _target(target, where) as into:
        _check_room(disk, chosen, into)
        asked = _ask(options) if options.asks else None
        ids = dict(_ids(options, asked))
        empty = empty_partitions(disk, str(into))
        for place, topic_id in empty.items():
            if topic_id is not None:
                ids.setdefault(place.topic, topic_id)
        _check_ids(chosen, ids, disk, into)
        _check_counts(disk, chosen, into, asked)
        way: Way = "reflink" if options.reflink else "copy"
        report = _transfer(disk, where, into, chosen, ids, way, anew=True)
    failed = _verdict(report)
    _tell_export(target, chosen, options)
    return failed


# --- checks before the copy ---------------------------------------------------------------------


def _stopped(source: Path) -> Path:
    where = existing(source, "directory")
    if not where.is_dir() or not (where / file_names.META_PROPERTIES).exists():
        raise UsageError(
            f"{source}: not a log directory (no {file_names.META_PROPERTIES}); pass one of log.dirs"
        )
    if broker_runs_on(where):
        raise CommandError(f"{source}: a broker is running on it; stop it first")
    return where


@contextmanager
def _target(target: Path, source: Path) -> Iterator[Path]:
    """Create and lock the target's log directory. Raises UsageError or CommandError."""
    into = target.absolute()
    if into.is_relative_to(source) or source.is_relative_to(into):
        raise UsageError(f"{target}: is inside the source, or contains it")
    if into.exists() and not into.is_dir():
        raise UsageError(f"{target}: not a directory; pass an existing or a new directory")
    into.mkdir(parents=True, exist_ok=True)
    try:
        unlock = RealDisk(None).lock(str(into / file_names.LOCK))
    except BlockingIOError as held:
        raise CommandError(
            f"{target}: a broker is running on it ({held.strerror}); stop it first"
        ) from None
    try:
        yield into
    finally:
        unlock()


def _chosen(disk: RealDisk, where: Path, options: TransferOptions, *, transactions: bool) -> Places:
    partitions = partitions_in(disk, str(where))
    topics = {place.topic for place in partitions}
    missing = [name for name in options.topic if name not in topics]
    if missing:
        raise UsageError(f"--topic {missing[0]}: {where} has no partition of this topic")
    internal = {OFFSETS_TOPIC} if options.offsets else set()
    internal |= {TRANSACTIONS_TOPIC} if transactions else set()
    wanted = set(options.topic) or topics - {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
    chosen = {place: path for place, path in partitions.items() if place.topic in wanted | internal}
    if not chosen:
        raise CommandError(f"{where}: has no partition to copy")
    return chosen


def _ids(options: TransferOptions, asked: Mapping[str, tuple[bytes, int]] | None = None) -> Ids:
    topic_ids = {name: description[0] for name, description in (asked or {}).items()}
    for name, text in pairs("--topic-id", options.topic_id).items():
        try:
            topic_ids[name] = text_files.decode_uuid(text)
        except ValueError:
            raise UsageError(
                f"--topic-id {name}={text}: an id has 22 characters of base64"
            ) from None
    return topic_ids


def _ask(options: TransferOptions) -> dict[str, tuple[bytes, int]]:
    """Ask the target cluster's brokers for each topic's id and partition count, by topic name."""
    brokers = BrokerOptions(
        bootstrap=options.bootstrap,
        profile=options.profile,
        command_config=options.command_config,
    )
    with brokers.client() as client:
        topics = run(client.metadata()).topics
    return {
        name: (description.topic_id, len(description.partitions))
        for name, description in topics.items()
    }


def _check_room(disk: RealDisk, chosen: Places, into: Path) -> None:
    try:
        check_room(disk, str(into), chosen)
    except TransferError as error:
        raise CommandError(str(error), EXIT_FAILED) from None


def _check_ids(chosen: Places, ids: Ids, disk: RealDisk, into: Path) -> None:
    """Raise CommandError if the id of a topic is missing: a KRaft broker must know each one.

    With ZooKeeper a topic without an id there gets the id in its directory.
    """
    identity = read_identity(disk, str(into))
    missing = sorted({place.topic for place in chosen} - set(ids))
    if not missing or identity is None or identity.version == 0:
        return
    name = missing[0]
    advice = (
        "let a consumer group find its coordinator there, or omit group offsets (--no-offsets)"
        if name == OFFSETS_TOPIC
        else f"create {name} there, stop the broker and try again, or pass --topic-id {name}=ID"
    )
    raise CommandError(f"{into}: the topic id of {', '.join(missing)} is unknown; {advice}")


def _check_counts(
    disk: RealDisk, chosen: Places, into: Path, asked: Mapping[str, tuple[bytes, int]] | None
) -> None:
    """Raise CommandError if a topic has another number of partitions in the target.

    Keys are hashed over that number, and so are groups over the partitions of __consumer_offsets.
    """
    here = Counter(place.topic for place in chosen)
    there = Counter(place.topic for place in partitions_in(disk, str(into)))
    for topic, count in here.items():
        other = asked[topic][1] if asked and topic in asked else there.get(topic, 0)
        if other and other != count:
            advice = f"create it with {count} partitions"
            if topic == OFFSETS_TOPIC:
                advice = f"set offsets.topic.num.partitions={count} there, or pass --no-offsets"
            raise CommandError(f"{topic} has {count} partitions here and {other} there; {advice}")


# --- the copy ----------------------------------------------------------------------------------


def _transfer(
    disk: RealDisk,
    source: Path,
    into: Path,
    chosen: Places,
    ids: Ids,
    way: Way,
    *,
    anew: bool,
) -> Report:
    size = sum(bytes_in(disk, path) for path in chosen.values())
    free = disk.free_bytes(str(into))
    if way == "copy" and size > free:
        raise CommandError(
            f"{into}: {size:,} bytes are needed, {free:,} are free; free some space, or select"
            " topics with --topic"
        )
    told: list[Callable[[int], None]] = [lambda size: None]
    transfer = Transfer(
        disk,
        RealRandom(),
        str(source),
        str(into),
        Copier(way, lambda count: told[0](count)),
        anew=anew,
    )
    with progress("copying", size) as told[0]:
        for place, path in chosen.items():
            try:
                transfer.bring(place, path, ids.get(place.topic))
            except CannotCopy as error:
                raise CommandError(f"{error}; omit --{way} to copy") from None
    transfer.finish()
    report = Report()
    with progress("verifying", size) as report.progress:
        transfer.verify(report)
    return report


def _verdict(report: Report) -> int | None:
    for finding in report.findings:
        word = "damaged" if finding.damage else "remark"
        note(f"{word}: {finding.path}: {finding.text}")
    print_line(f"{'sound' if report.sound else 'damaged'}: {sums(report)}")
    return None if report.sound else EXIT_FAILED


def _tell_import(target: Path, chosen: Places, *, clean: bool) -> None:
    print_line(f"{len(chosen)} partitions are in {target}. Next steps:")
    settings = []
    for topic, key in (
        (OFFSETS_TOPIC, "offsets.topic.num.partitions"),
        (TRANSACTIONS_TOPIC, "transaction.state.log.num.partitions"),
    ):
        count = sum(place.topic == topic for place in chosen)
        if count not in (0, _DEFAULT_PARTITIONS):
            settings.append(f"--set {key}={count}")
    if not clean:
        print_line("  the source was not stopped cleanly: the first start recovers every log")
    print_line(
        "  topic settings (retention, compaction) are not in a log directory: the broker's"
        " defaults apply until you set them; with log.retention.ms=-1 at the first start"
        " nothing expires"
    )
    words = " ".join(["--set log.retention.ms=-1", *settings])
    print_line(f"  headrace serve --data {target} {words}")
    print_line("  headrace topic alter TOPIC -c cleanup.policy=…,retention.ms=…")


def _tell_export(target: Path, chosen: Places, options: TransferOptions) -> None:
    print_line(f"{len(chosen)} partitions are in {target}. Next steps:")
    if options.asks and not (target / file_names.META_PROPERTIES).exists():
        print_line("  stop the Kafka broker that leads these partitions, move the directories of")
        print_line(f"  {target} into its log.dirs in place of its empty ones, and start it again")
    else:
        print_line("  start the Kafka broker on it; topics need replication factor 1 until then")
    print_line("  topic settings are not in a log directory: set them there to the same values")
