"""Verify a whole log directory: identity, checkpoints, every partition, and their consistency."""

from collections.abc import Container, Iterator, Mapping
from contextlib import closing, suppress

from headrace.log import file_names, text_files
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.directory.state_files.meta_properties import read_identity
from headrace.log.directory.state_files.read_bound_slot import Said
from headrace.log.recovery.gaps import Gaps
from headrace.log.recovery.recover import topic_id_in
from headrace.log.text_files import read_file
from headrace.logtools.verify.partition import (
    PartitionFacts,
    Surroundings,
    segment_files,
    verify_partition,
)
from headrace.logtools.verify.report import Kind, Report
from headrace.model.errors import ConfigError, CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Disk

_OFFSET_FILES = (
    file_names.RECOVERY_POINTS,
    file_names.LOG_STARTS,
    file_names.HIGH_WATERMARKS,
    file_names.CLEANER_OFFSETS,
)
Offsets = Mapping[TopicPartition, Offset]


def is_log_directory(disk: Disk, path: str) -> bool:
    """Return whether `path` is a log directory, not a partition's directory."""
    names = disk.list(path)
    return any(name in names for name in (file_names.META_PROPERTIES, *_OFFSET_FILES)) or any(
        file_names.parse_directory(name) and disk.is_directory(f"{path}/{name}") for name in names
    )


def partitions_in(disk: Disk, path: str) -> dict[TopicPartition, str]:
    """Return the partitions of a log directory with their paths, without KRaft's own log."""
    paths = {}
    for name in disk.list(path):
        place = file_names.parse_directory(name)
        if (
            place is not None
            and name != file_names.KRAFT_METADATA
            and disk.is_directory(f"{path}/{name}")
        ):
            paths[place] = f"{path}/{name}"
    return paths


def bytes_in(disk: Disk, path: str) -> int:
    """Return the total bytes of the segments below a path, for a progress bar."""
    places = partitions_in(disk, path).values() if is_log_directory(disk, path) else [path]
    total = 0
    for place in places:
        # A broker may delete files meanwhile; then the progress bar only runs ahead.
        with suppress(FileNotFoundError):
            for file, _ in segment_files(disk, place):
                with closing(disk.open(file, writable=False)) as opened:
                    total += opened.size()
    return total


class Checkpoints:
    """The contents of a log directory's checkpoint files, as far as they can be read."""

    def __init__(self, disk: Disk, path: str, report: Report) -> None:
        self.clean = disk.exists(f"{path}/{file_names.CLEAN_SHUTDOWN}") and not report.live
        self.broken: list[str] = []
        self._offsets: dict[str, Offsets] = {}
        for name in _OFFSET_FILES:
            where = f"{path}/{name}"
            content = read_file(disk, where)
            try:
                self._offsets[name] = (
                    {} if content is None else text_files.read_offsets(content, where)
                )
            except CorruptLogError as error:
                self._offsets[name] = {}
                self.broken.append(name)
                report.damage(Kind.CHECKPOINT, where, str(error).removeprefix(f"{where}: "))
        self.gaps = Gaps(disk, path)
        self.gaps.read()
        boot = read_file(disk, f"{path}/{file_names.BOOT_ID}") or b""
        same_boot = text_files.read_boot_id(boot) == disk.boot_id() != ""
        self._said = bounds_of(disk, path, Report()) if report.live else {}
        self._path, self._disk = path, disk
        self._own_files = self.gaps.known and not report.live and (self.clean or same_boot)

    def missing(
        self, disk: Disk, path: str, found: Container[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return partitions without a directory, with the offset up to which they were flushed.

        Only in Headrace's own directories: Kafka leaves checkpoints of deleted partitions.
        """
        if not self.gaps.known:
            return {}
        there = {
            file_names.stem_of(name) for name in disk.list(path) if file_names.is_deleted(name)
        }
        flushed = self._offsets[file_names.RECOVERY_POINTS]
        return {
            place: end
            for place, end in flushed.items()
            if end > 0 and place not in found and file_names.deletion_stem(place) not in there
        }

    def offset(self, name: str, place: TopicPartition) -> int | None:
        """Return a partition's offset in the checkpoint `name`; None if it has none."""
        return self._offsets[name].get(place)

    def all_of(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in the checkpoint file `name`, by partition."""
        return dict(self._offsets[name])

    def around(self, place: TopicPartition) -> Surroundings:
        """Return the checkpoints' contents about one partition."""
        return Surroundings(
            clean=self.clean,
            recovery_point=self.offset(file_names.RECOVERY_POINTS, place) or 0,
            start_offset=self.offset(file_names.LOG_STARTS, place) or 0,
            high_watermark=self.offset(file_names.HIGH_WATERMARKS, place),
            compacted=bool(self.offset(file_names.CLEANER_OFFSETS, place)),
            gaps_below=self._gaps_below(place),
            durable=self._durable(place),
            own_files=self._own_files,
        )

    def _gaps_below(self, place: TopicPartition) -> int | None:
        if not self.gaps.known:
            return None
        return max(self.gaps.below(place), self.offset(file_names.CLEANER_OFFSETS, place) or 0)

    def _durable(self, place: TopicPartition) -> int:
        """Return the offset up to which a running broker had flushed before its files are read.

        Taken from the read bounds, which the broker lowers before it truncates a log; without them
        (Kafka) from its recovery point.
        """
        topic_id = topic_id_in(self._disk, f"{self._path}/{place}")
        said = self._said.get((topic_id, place.partition))
        if said is not None:
            return said[1]
        return 0 if self._said else self.offset(file_names.RECOVERY_POINTS, place) or 0


def verify_directory(disk: Disk, path: str, report: Report) -> Iterator[PartitionFacts]:
    """Verify a log directory; yield the facts about each partition's log."""
    checkpoints = Checkpoints(disk, path, report)
    _check_identity(disk, path, report)
    said = bounds_of(disk, path, report)
    ids: dict[str, bytes] = {}
    found = partitions_in(disk, path)
    for name in disk.list(path):
        if name.endswith(file_names.DELETE_SUFFIX) and disk.is_directory(f"{path}/{name}"):
            text = "a deleted partition; the next start removes it"
            report.remark(Kind.LEFTOVER, f"{path}/{name}", text)
    if not report.live:
        for place, end in checkpoints.missing(disk, path, found).items():
            text = f"is gone, and with it the offsets up to {end - 1} that were flushed"
            report.damage(Kind.GAP, f"{path}/{place}", text)
    for place, where in found.items():
        around = checkpoints.around(place)
        try:
            facts = verify_partition(disk, where, report, around)
        except FileNotFoundError:
            if not report.live:
                raise
            report.remark(Kind.FILE, where, "was deleted meanwhile")
            continue
        _check_topic_id(place, facts, ids, report)
        if not report.live:
            _check_against(checkpoints, place, facts, path, report)
            check_bound(said, place, facts, path, report)
        yield facts


def verify_path(disk: Disk, path: str, report: Report) -> None:
    """Verify a log directory or a partition's directory, whichever `path` is. Raises OSError."""
    if is_log_directory(disk, path):
        for _ in verify_directory(disk, path, report):
            pass
        return
    verify_partition(disk, path, report, _around(disk, path, live=report.live))


def durable_end(disk: Disk, partition: str) -> int:
    """Return the offset up to which a running broker has flushed a partition's log."""
    return _around(disk, partition, live=True).durable


def _around(disk: Disk, partition: str, *, live: bool) -> Surroundings:
    """Return the log directory's data about the partition at this path, if it lies in one."""
    place = file_names.parse_directory(partition.rpartition("/")[2])
    parent = partition.rpartition("/")[0]
    if place is None or not disk.exists(f"{parent}/{file_names.META_PROPERTIES}"):
        return Surroundings()
    return Checkpoints(disk, parent, Report(live=live)).around(place)


def _check_identity(disk: Disk, path: str, report: Report) -> None:
    where = f"{path}/{file_names.META_PROPERTIES}"
    try:
        if read_identity(disk, path) is None:
            report.remark(Kind.IDENTITY, where, "is missing, so the directory's owner is unknown")
    except ConfigError as error:
        report.damage(Kind.IDENTITY, where, str(error).removeprefix(f"{where}: "))
    marker = f"{path}/{file_names.CLEAN_SHUTDOWN}"
    content = read_file(disk, marker)
    if content is not None:
        try:
            text_files.read_clean_shutdown(content, marker)
        except CorruptLogError as error:
            report.damage(Kind.CHECKPOINT, marker, str(error).removeprefix(f"{marker}: "))


def _check_topic_id(
    place: TopicPartition, facts: PartitionFacts, ids: dict[str, bytes], report: Report
) -> None:
    if facts.topic_id is None:
        return
    known = ids.setdefault(place.topic, facts.topic_id)
    if known != facts.topic_id:
        text = (
            f"topic id {text_files.encode_uuid(facts.topic_id)}, other partitions of the topic say "
        )
        where = f"{facts.path}/{file_names.PARTITION_METADATA}"
        report.damage(Kind.METADATA, where, text + text_files.encode_uuid(known))


def _check_against(
    checkpoints: Checkpoints,
    place: TopicPartition,
    facts: PartitionFacts,
    path: str,
    report: Report,
) -> None:
    """Report checkpoints with offsets beyond the log end."""
    if any(segment.bad for segment in facts.segments):
        return
    for name in (file_names.LOG_STARTS, file_names.HIGH_WATERMARKS, file_names.CLEANER_OFFSETS):
        offset = checkpoints.offset(name, place)
        if offset is not None and offset > facts.end:
            text = f"says {offset} of {place}, whose log ends at {facts.end}"
            report.doubt(checkpoints.clean, Kind.CHECKPOINT, f"{path}/{name}", text)


def bounds_of(disk: Disk, path: str, report: Report) -> dict[durable_read_bounds.Key, Said]:
    """Return the read bounds that the broker has published for readers of the files."""
    where = f"{path}/{durable_read_bounds.NAME}"
    content = read_file(disk, where)
    try:
        return {} if content is None else durable_read_bounds.read_slots(content, where)
    except CorruptLogError as error:
        report.remark(Kind.CHECKPOINT, where, str(error).removeprefix(f"{where}: "))
        return {}


def check_bound(
    said: Mapping[durable_read_bounds.Key, Said],
    place: TopicPartition,
    facts: PartitionFacts,
    path: str,
    report: Report,
) -> None:
    """Report a log that ends before its published read bound."""
    bound = said.get((facts.topic_id or b"", place.partition))
    if bound is not None and bound[1] > facts.end:
        text = f"says that {place} is flushed up to {bound[1]}, its log ends at {facts.end}"
        report.damage(Kind.CHECKPOINT, f"{path}/{durable_read_bounds.NAME}", text)
