"""Copy partitions with their entries in the checkpoints."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from headrace.log import file_names, text_files
from headrace.log.text_files import read_file
from headrace.logtools.transfer.rewrite_batches import clear_commits, reset_epochs
from headrace.logtools.verify import Report, verify_partition
from headrace.logtools.verify.directory import Checkpoints, partitions_in
from headrace.logtools.verify.partition import segment_files
from headrace.model.errors import HeadraceError
from headrace.model.nouns import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from headrace.ports.clock import Random
from headrace.ports.disk import Disk

_CHECKPOINTS = (
    file_names.RECOVERY_POINTS,
    file_names.LOG_STARTS,
    file_names.HIGH_WATERMARKS,
    file_names.CLEANER_OFFSETS,
)
_BESIDE = (file_names.LEADER_EPOCHS, file_names.PARTITION_METADATA)
Places = Mapping[TopicPartition, str]


class TransferError(HeadraceError):
    """The partitions cannot be copied; the text says why and what to do."""


def empty_partitions(disk: Disk, path: str) -> dict[TopicPartition, bytes | None]:
    """Return the partitions without records in a log directory, with their topic ids."""
    topic_ids: dict[TopicPartition, bytes | None] = {}
    for place, where in partitions_in(disk, path).items():
        size = 0
        for file, _ in segment_files(disk, where):
            with closing(disk.open(file, writable=False)) as opened:
                size += opened.size()
        if size == 0:
            metadata = f"{where}/{file_names.PARTITION_METADATA}"
            content = read_file(disk, metadata)
            topic_ids[place] = content and text_files.read_partition_metadata(content, metadata)
    return topic_ids


def check_room(disk: Disk, target: str, places: Places) -> None:
    """Raise TransferError unless none of `places` holds records in the target directory.
    Raises OSError."""
    present = partitions_in(disk, target)
    empty = empty_partitions(disk, target)
    for place in places:
        if place in present and place not in empty:
            remedy = "delete that topic there first, or leave it out with --topic"
            if place.topic == OFFSETS_TOPIC:
                remedy = "leave the consumer groups' offsets out with --no-offsets"
            elif place.topic == TRANSACTIONS_TOPIC:
                remedy = "transactions of two brokers are not merged: name a new directory"
            raise TransferError(f"{present[place]}: holds records already; {remedy}")


@dataclass(slots=True)
class Transfer:
    """A copy of partitions to another log directory.

    Call `check_room`, then `bring` for each partition, `finish` and `verify`.
    """

    disk: Disk
    random: Random
    source: str
    target: str
    copy: Callable[[str, str, bool], None]
    """Copies a file durably from a source to a target path; the flag says that the file never
    changes."""
    anew: bool = False
    """Whether the target is another cluster, where leader epochs start over."""
    brought: list[TopicPartition] = field(default_factory=list)

    def bring(self, place: TopicPartition, where: str, topic_id: bytes | None) -> None:
        """Copy a partition; `topic_id`: its topic's id in the target.

        Raises OSError or BadBatch.
        """
        disk = self.disk
        temporary = f"{self.target}/{file_names.delete_directory(place, self.random.uuid())}"
        disk.make_directory(temporary)
        newest = max((base for _, base in segment_files(disk, where)), default=0)
        for name in disk.list(where):
            parsed = file_names.parse_segment_file(name)
            if name not in _BESIDE and (parsed is None or parsed[1].endswith(".damaged")):
                continue
            closed = parsed is not None and parsed[1] == file_names.LOG and parsed[0] < newest
            self.copy(f"{where}/{name}", f"{temporary}/{name}", closed)
        if self.anew:
            if place.topic == OFFSETS_TOPIC:
                clear_commits(disk, temporary)
            reset_epochs(disk, temporary)
        if topic_id is not None:
            content = text_files.write_partition_metadata(topic_id)
            disk.replace(f"{temporary}/{file_names.PARTITION_METADATA}", content)
        disk.sync_directory(temporary)
        final = f"{self.target}/{place}"
        if disk.exists(final):
            # It is empty, as `check_room` has verified; if interrupted here, the next start deletes
            # it.
            old = f"{self.target}/{file_names.delete_directory(place, self.random.uuid())}"
            disk.rename(final, old)
            disk.remove_tree(old)
        disk.rename(temporary, final)
        disk.sync_directory(self.target)
        self.brought.append(place)

    def finish(self) -> bool:
        """Write the checkpoints; return whether the target's next start may trust all files."""
        disk, marker = self.disk, f"{self.target}/{file_names.CLEAN_SHUTDOWN}"
        known = Checkpoints(disk, self.source, Report())
        before = Checkpoints(disk, self.target, Report())
        fresh = not before.clean and not disk.exists(f"{self.target}/{file_names.RECOVERY_POINTS}")
        for name in _CHECKPOINTS:
            said = before.all_of(name)
            for place in self.brought:
                offset = known.offset(name, place)
                if offset is None:
                    said.pop(place, None)
                else:
                    said[place] = offset
            disk.replace(f"{self.target}/{name}", text_files.write_offsets(said))
        clean = known.clean and (fresh or before.clean)
        if clean and fresh:
            disk.replace(marker, text_files.write_clean_shutdown())
        elif not clean and disk.exists(marker):
            disk.remove(marker)
            disk.sync_directory(self.target)
        return clean

    def verify(self, report: Report) -> None:
        """Verify the copied partitions in the target."""
        checkpoints = Checkpoints(self.disk, self.target, report)
        for place in self.brought:
            where = f"{self.target}/{place}"
            verify_partition(self.disk, where, report, checkpoints.around(place))
