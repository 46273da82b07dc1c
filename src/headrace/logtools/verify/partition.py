"""Verify a partition's directory: its segments in order, and all files next to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.log import file_names, text_files
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.producers.producer_snapshot import SnapshotEntry, read_snapshot
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.segment.scan import Batch
from headrace.log.segment.transaction_index import AbortedTransaction, read_entries
from headrace.log.text_files import read_file
from headrace.logtools.verify.report import Kind, Report
from headrace.logtools.verify.segment import SegmentCheck, SegmentFacts, Trust
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.ports.disk import Disk
from headrace.record.batch import CONTROL, BatchHeader, CorruptBatch, parse_control, records

_COMPARED = ("producer_epoch", "last_sequence", "last_offset", "current_txn_first_offset")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The log directory's checkpointed data about a partition."""

    clean: bool = True
    """Whether the last shutdown was clean."""
    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int | None = None
    compacted: bool = False
    """Whether the log cleaner has compacted the partition."""
    gaps_below: int | None = None
    """Offset below which compaction may have left gaps; None: unknown, as in Kafka's
    directories."""
    durable: int = 0
    """Offset up to which a running broker has flushed the log."""
    own_files: bool = False
    """Whether the small files next to the log are as Headrace last wrote them."""


@dataclass(slots=True)
class PartitionFacts:
    """Facts derived from the log itself, from which repair rebuilds the files next to it."""

    path: str
    segments: list[SegmentFacts] = field(default_factory=list)
    end: int = 0
    topic_id: bytes | None = None
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    producers: ProducerStates = field(default_factory=ProducerStates)
    aborted: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    """Aborted transactions by the base offset of the segment that holds their abort marker."""

    @property
    def first(self) -> int:
        """The first segment's base offset; 0 without segments."""
        return self.segments[0].base if self.segments else 0

    @property
    def compacted(self) -> bool:
        """Whether a batch shows that the log was compacted."""
        return any(segment.thinned for segment in self.segments)


def verify_partition(
    disk: Disk, path: str, report: Report, around: Surroundings | None = None
) -> PartitionFacts:
    """Verify everything in a partition's directory; return the facts about its log.

    Raises OSError.
    """
    return _PartitionCheck(disk, path, report, around or Surroundings()).run()


class _PartitionCheck:
    def __init__(self, disk: Disk, path: str, report: Report, around: Surroundings) -> None:
        self._disk = disk
        self._path = path
        self._report = report
        self._around = around
        self._facts = PartitionFacts(path)
        self._present = {
            name: parsed
            for name in disk.list(path)
            if (parsed := file_names.parse_segment_file(name))
        }
        self._snapshots = sorted(
            base for base, suffix in self._present.values() if suffix == file_names.SNAPSHOT
        )
        self._next_snapshot = 0
        self._saved_epochs: LeaderEpochs | None = None
        self._strange_epoch = False

    def run(self) -> PartitionFacts:
        facts, report = self._facts, self._report
        report.partitions += 1
        self._find_leftovers()
        self._read_metadata()
        self._read_epochs()
        bases = sorted(base for base, suffix in self._present.values() if suffix == file_names.LOG)
        facts.end = bases[0] if bases else self._around.start_offset
        self._begin_producers(facts.end)
        self._look_before(facts.end)
        for base in bases:
            self._segment(base, last=base == bases[-1])
        self._meet_snapshots(facts.end + 1)
        self._look_behind_the_end()
        self._check_aborted()
        if not bases and self._present:
            report.damage(Kind.GAP, self._path, "has no .log at all")
        return facts

    def _file(self, base: int, suffix: str) -> str:
        return f"{self._path}/{file_names.segment_file(base, suffix)}"

    # --- the log -------------------------------------------------------------------------------

    def _segment(self, base: int, *, last: bool) -> None:
        facts, around = self._facts, self._around
        if base > facts.end and facts.segments:
            self._gap(base)
        elif base < facts.end:
            text = f"begins at {base}, the segment before ends at {facts.end}"
            self._report.damage(Kind.GAP, self._file(base, file_names.LOG), text)
        trusted = around.clean or (base < around.recovery_point and not last)
        torn_from = None if around.clean else around.recovery_point
        trust = Trust(trusted, torn_from, last, around.durable)
        check = SegmentCheck(self._disk, self._path, base, self._report, trust, facts.end)
        facts.segments.append(check.facts)
        try:
            for batch in check.walk():
                self._note(batch, check.facts.path)
        except FileNotFoundError:
            if not self._report.live:
                raise
            facts.segments.pop()
            self._report.remark(Kind.FILE, check.facts.path, "was deleted meanwhile")
            return
        facts.end = max(facts.end, check.facts.end)

    def _look_before(self, first: int) -> None:
        """Report offsets missing before `first`: a broker cuts the epochs before it moves the log
        start."""
        saved, around = self._saved_epochs, self._around
        if saved is None or not saved.entries or not around.own_files:
            return
        begins = saved.entries[0][1]
        if begins < first:
            text = f"offsets {begins} to {first - 1} are missing before it"
            self._report.damage(Kind.GAP, self._file(first, file_names.LOG), text)

    def _gap(self, base: int) -> None:
        facts, around = self._facts, self._around
        before = facts.segments[-1]
        known = around.gaps_below
        compacted = facts.compacted or around.compacted if known is None else base <= known
        if before.bad is not None or compacted:
            return
        text = f"offsets {facts.end} to {base - 1} are missing before it"
        path = self._file(base, file_names.LOG)
        if known is None and facts.end == before.base and before.size == 0:
            return
        if not around.clean and base > around.recovery_point:
            text += ": lost with the power, and the next start cuts off what lies behind"
            self._report.remark(Kind.GAP, path, text)
        else:
            self._report.damage(Kind.GAP, path, f"{text}, and nothing says that they were deleted")

    def _note(self, batch: Batch, path: str) -> None:
        """Record the producers, leader epochs and aborted transactions of a batch."""
        header = batch.header
        self._meet_snapshots(header.base_offset + 1)
        self._note_epoch(header, path)
        if header.producer_id < 0:
            return
        if not header.attributes & CONTROL:
            self._facts.producers.update(header, header.base_offset)
            return
        marker = next(iter(records(batch.view)), None)
        if marker is None:
            return
        try:
            ended = parse_control(marker)
        except CorruptBatch:
            text = f"at byte {batch.position}: a control batch that says nothing known"
            self._report.damage(Kind.BATCH, path, text)
            return
        offset = Offset(header.base_offset)
        producers = self._facts.producers
        aborted = producers.aborted_by(header, ended, offset)
        producers.update_marker(header, ended, offset)
        if aborted is not None:
            base = self._facts.segments[-1].base
            self._facts.aborted.setdefault(base, []).append(aborted)

    # --- epochs --------------------------------------------------------------------------------

    def _read_epochs(self) -> None:
        path = f"{self._path}/{file_names.LEADER_EPOCHS}"
        content = read_file(self._disk, path)
        if content is None:
            return
        try:
            self._saved_epochs = LeaderEpochs(text_files.read_epochs(content, path))
        except CorruptLogError as error:
            self._report.damage(Kind.EPOCHS, path, _reason(error, path))

    def _note_epoch(self, header: BatchHeader, path: str) -> None:
        epoch, facts = header.leader_epoch, self._facts
        if epoch > facts.epochs.latest:
            facts.epochs.assign(LeaderEpoch(epoch), Offset(header.base_offset))
        elif epoch < facts.epochs.latest and not self._strange_epoch:
            self._strange_epoch = True
            text = f"offset {header.base_offset} is of leader epoch {epoch}"
            self._report.damage(Kind.EPOCHS, path, f"{text}, after {facts.epochs.latest}")
        saved = self._saved_epochs
        if saved is None or self._strange_epoch:
            return
        known = saved.epoch_of(Offset(header.base_offset))
        if known not in (epoch, -1):
            self._strange_epoch = True
            text = f"offset {header.base_offset} is of epoch {epoch} in the log, here of {known}"
            where = f"{self._path}/{file_names.LEADER_EPOCHS}"
            trusted = self._around.clean and not self._report.live
            self._report.doubt(trusted, Kind.EPOCHS, where, text)

    # --- producers -----------------------------------------------------------------------------

    def _begin_producers(self, first: int) -> None:
        """Load the producers from the snapshot at the first segment, if there is one."""
        path = self._file(first, file_names.SNAPSHOT)
        content = read_file(self._disk, path) if first in self._snapshots else None
        if content is not None:
            try:
                self._facts.producers.kept.load(content, path)
            except CorruptLogError:
                return  # Reported when the snapshots are compared.

    def _meet_snapshots(self, below: int) -> None:
        """Compare the snapshots taken below `below` with the producers derived from the log."""
        while self._next_snapshot < len(self._snapshots):
            at = self._snapshots[self._next_snapshot]
            if at >= below:
                return
            self._next_snapshot += 1
            path = self._file(at, file_names.SNAPSHOT)
            try:
                content = read_file(self._disk, path)
                if content is not None:
                    self._compare(path, read_snapshot(content, path))
            except CorruptLogError as error:
                self._report.doubt(self._around.clean, Kind.SNAPSHOT, path, _reason(error, path))

    def _compare(self, path: str, saved: list[SnapshotEntry]) -> None:
        known = {entry.producer_id: entry for entry in self._facts.producers.kept.entries()}
        for entry in saved:
            mine = known.get(entry.producer_id)
            if mine is None or entry.last_offset < self._facts.first:
                continue
            if mine.last_offset < entry.last_offset < self._compacted_below():
                continue  # Compaction has removed the producer's batch since.
            for name in _COMPARED:
                said, found = getattr(entry, name), getattr(mine, name)
                if said != found and not self._may_differ(name, said, found):
                    what = name.replace("_", " ")
                    text = f"producer {entry.producer_id}: {what} {said}, by the log {found}"
                    self._report.doubt(self._around.clean, Kind.SNAPSHOT, path, text)
                    return

    def _may_differ(self, name: str, said: int | None, found: int | None) -> bool:
        """Return whether compaction explains a difference: it removed batches or the marker.

        The last batch of a producer stays, with its epoch and sequence.
        """
        if name != "current_txn_first_offset":
            return False
        began = [offset for offset in (said, found) if offset is not None and offset >= 0]
        return bool(began) and min(began) < self._compacted_below()

    def _compacted_below(self) -> int:
        """Return the offset below which compaction may have removed batches that a snapshot
        reflects."""
        around = self._around
        if around.gaps_below is not None:
            return around.gaps_below
        if around.compacted or self._facts.compacted:
            return self._facts.end
        return 0

    def _look_behind_the_end(self) -> None:
        """Report snapshots and leader epochs with offsets beyond the log end."""
        if any(segment.bad for segment in self._facts.segments):
            return
        if self._report.live:
            self._look_for_flushed()
            return
        end, clean = self._facts.end, self._around.clean
        for at in self._snapshots[self._next_snapshot :]:
            text = f"is of offset {at}, the log ends at {end}"
            self._report.doubt(clean, Kind.SNAPSHOT, self._file(at, file_names.SNAPSHOT), text)
        if self._saved_epochs is not None:
            for epoch, start in self._saved_epochs.entries:
                if start > end:
                    text = f"epoch {epoch} begins at {start}, the log ends at {end}"
                    where = f"{self._path}/{file_names.LEADER_EPOCHS}"
                    self._report.doubt(clean, Kind.EPOCHS, where, text)
        if self._around.recovery_point > end >= self._around.start_offset:
            text = f"ends at {end}, yet all below {self._around.recovery_point} was flushed"
            self._report.damage(Kind.GAP, self._path, f"{text}: records are missing")

    def _look_for_flushed(self) -> None:
        """Report a log that ends before the offset up to which a running broker has flushed it."""
        end, durable = self._facts.end, self._around.durable
        if durable > end and self._facts.segments:
            text = f"ends at {end}, yet offsets below {durable} were flushed: records are missing"
            self._report.damage(Kind.GAP, self._path, text)

    # --- aborted transactions -------------------------------------------------------------------

    def _check_aborted(self) -> None:
        for at, segment in enumerate(self._facts.segments):
            last = at + 1 == len(self._facts.segments)
            if segment.bad is not None or (last and self._report.live):
                continue
            path = self._file(segment.base, file_names.TXN_INDEX)
            trusted = self._around.clean or (
                segment.base < self._around.recovery_point and not last
            )
            try:
                content = read_file(self._disk, path)
                saved = [] if content is None else read_entries(content, path)
            except CorruptLogError as error:
                self._report.doubt(trusted, Kind.TXN_INDEX, path, _reason(error, path))
                continue
            wrong = self._wrong_aborted(saved, segment)
            if wrong is not None:
                self._report.doubt(trusted, Kind.TXN_INDEX, path, wrong)

    def _wrong_aborted(self, saved: list[AbortedTransaction], segment: SegmentFacts) -> str | None:
        ends = [entry.last_offset for entry in saved]
        if ends != sorted(ends) or (ends and not segment.base <= ends[0] <= ends[-1] < segment.end):
            return "its transactions do not end in this segment, one after the other"
        if self._around.compacted or self._facts.compacted:
            return None  # Compaction drops entries that no reader needs any longer.
        transactions = self._facts.aborted.get(segment.base, [])
        known = set(saved)
        for entry in transactions:
            if entry not in known:
                return f"lacks the transaction aborted at offset {entry.last_offset}"
        mine = set(transactions)
        for entry in saved:
            # The log cannot show transactions that began before the first segment.
            if entry not in mine and entry.first_offset >= self._facts.first:
                return f"names a transaction aborted at {entry.last_offset}, the log does not"
        return None

    # --- the rest -------------------------------------------------------------------------------

    def _read_metadata(self) -> None:
        path = f"{self._path}/{file_names.PARTITION_METADATA}"
        content = read_file(self._disk, path)
        if content is None:
            return
        try:
            self._facts.topic_id = text_files.read_partition_metadata(content, path)
        except CorruptLogError as error:
            self._report.damage(Kind.METADATA, path, _reason(error, path))

    def _find_leftovers(self) -> None:
        if self._report.live:
            return
        bases = {base for base, suffix in self._present.values() if suffix == file_names.LOG}
        for name, (base, suffix) in sorted(self._present.items()):
            path = f"{self._path}/{name}"
            if suffix.endswith((file_names.DELETED, file_names.CLEANED, file_names.SWAP)):
                text = "left by a deletion or compaction; the next start sees to it"
                self._report.remark(Kind.LEFTOVER, path, text)
            elif suffix.endswith(".damaged"):
                self._report.remark(Kind.LEFTOVER, path, "moved aside by repair")
            elif suffix in file_names.SEGMENT_SUFFIXES and base not in bases:
                self._report.doubt(
                    self._around.clean, Kind.GAP, path, f"has no {base:020d}.log beside it"
                )


def _reason(error: CorruptLogError, path: str) -> str:
    return str(error).removeprefix(f"{path}: ")


def segment_files(disk: Disk, path: str) -> Iterator[tuple[str, int]]:
    """Yield the path and base offset of each `.log` file in a partition's directory, in order."""
    bases = sorted(
        parsed[0]
        for name in disk.list(path)
        if (parsed := file_names.parse_segment_file(name)) and parsed[1] == file_names.LOG
    )
    for base in bases:
        yield f"{path}/{file_names.segment_file(base, file_names.LOG)}", base
