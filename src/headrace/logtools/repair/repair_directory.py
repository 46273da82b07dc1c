"""Repair a log directory: each partition, then the checkpoints."""

from collections.abc import Mapping
from itertools import pairwise

from headrace.log import file_names, text_files
from headrace.log.directory import given_up, unchanged_logs
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.directory.state_files.durable_read_bounds import Key
from headrace.log.directory.state_files.meta_properties import read_identity
from headrace.log.directory.state_files.read_bound_slot import Said
from headrace.log.recovery.gaps import Gaps
from headrace.logtools.repair.plan import Mending
from headrace.logtools.repair.salvage import salvage
from headrace.logtools.repair.segment_files import mend_beside, sync_segments
from headrace.logtools.verify import Finding, Kind, PartitionFacts, Report, verify_partition
from headrace.logtools.verify.directory import Checkpoints, bounds_of, check_bound, partitions_in
from headrace.model.errors import ConfigError
from headrace.model.nouns import Offset, TopicPartition

_OFFSETS = (
    file_names.RECOVERY_POINTS,
    file_names.LOG_STARTS,
    file_names.HIGH_WATERMARKS,
    file_names.CLEANER_OFFSETS,
)
Ends = dict[TopicPartition, int]


def repair_directory(
    mending: Mending, path: str, only: TopicPartition | None = None, report: Report | None = None
) -> None:
    """Repair the log directory, or one partition of it. The caller holds the lock. Raises OSError.

    `report` counts what was read.
    """
    told = report or Report()
    checkpoints = Checkpoints(mending.disk, path, told)
    try:
        read_identity(mending.disk, path)
    except ConfigError as error:
        mending.cannot(
            f"{path}/{file_names.META_PROPERTIES}",
            f"{error}; write version=0, broker.id and cluster.id into it by hand",
        )
    places = partitions_in(mending.disk, path)
    said = bounds_of(mending.disk, path, told)
    ids: dict[str, bytes] = {}
    ends: Ends = {}
    for place, end in checkpoints.missing(mending.disk, path, places).items():
        if only is None or place == only:
            text = f"is gone, with the offsets up to {end - 1}: nobody has them any more"
            _give_up(mending, path, place, end)
            mending.cannot(f"{path}/{place}", text)
            ends[place] = 0
    for place, where in places.items():
        if only is not None and place != only:
            continue
        facts = _partition(mending, place, where, checkpoints, told, ids, said)
        check_bound(said, place, facts, path, told)
        ends[place] = facts.end
    _gaps(mending, path, checkpoints.gaps)
    _bounds(mending, path, told)
    _checkpoints(mending, path, checkpoints, ends, None if only else places)


def _partition(
    mending: Mending,
    place: TopicPartition,
    where: str,
    checkpoints: Checkpoints,
    told: Report,
    ids: dict[str, bytes],
    said: Mapping[Key, Said],
) -> PartitionFacts:
    around = checkpoints.around(place)
    facts, findings = _looked_at(mending, where, checkpoints, place, told)
    bad = {finding.path for finding in findings if finding.damage and finding.kind is Kind.BATCH}
    bound = said.get((facts.topic_id or b"", place.partition), (0, 0, 0))
    flushed = max(around.recovery_point, around.high_watermark or 0, bound[1])
    if bad or flushed > facts.end or any(_is_loss(finding, where) for finding in findings):
        _give_up(mending, where.rpartition("/")[0], place, max(flushed, facts.end))
    changed = bool(bad) and salvage(mending, facts, bad)
    if changed:
        again = Report()
        facts = verify_partition(mending.disk, where, again, around)
        # Gaps that salvage left were reported as losses already.
        findings = [finding for finding in again.findings if finding.kind is not Kind.GAP]
    if facts.topic_id is not None:
        ids.setdefault(place.topic, facts.topic_id)
    lost = [finding for finding in findings if _is_loss(finding, where)]
    mend_beside(mending, facts, findings, ids.get(place.topic), begins_later=bool(lost))
    for finding in lost:
        mending.cannot(finding.path, f"{finding.text}: nobody has them any more")
    if lost or changed:
        for before, segment in pairwise(facts.segments):
            if segment.base > before.end:
                # Reported now; from here on the gap counts as compacted, so the next start serves
                # the log.
                checkpoints.gaps.allow(place, Offset(segment.base))
    if (around.recovery_point > facts.end or changed) and not mending.dry_run:
        sync_segments(mending, facts)
    return facts


def _give_up(mending: Mending, path: str, place: TopicPartition, end: int) -> None:
    """Record durably that a log lacks records before any are removed, so that its replica is
    distrusted."""
    if not mending.dry_run:
        given_up.add(mending.disk, path, place, end)
    if mending.disk.exists(f"{path}/{file_names.DIRECTORIES}"):
        mending.say(
            f"{path}/{place}: this broker is one of a cluster: if another replica of the partition"
            " is in sync (headrace cluster partitions), delete this directory instead of repairing"
            " it. Either way the broker fetches the whole partition from its leader when it starts"
        )


def _looked_at(
    mending: Mending, where: str, checkpoints: Checkpoints, place: TopicPartition, told: Report
) -> tuple[PartitionFacts, list[Finding]]:
    before = len(told.findings)
    facts = verify_partition(mending.disk, where, told, checkpoints.around(place))
    return facts, told.findings[before:]


def _is_loss(finding: Finding, where: str) -> bool:
    gap = finding.damage and finding.kind is Kind.GAP
    return gap and finding.path.endswith((where, file_names.LOG))


def _gaps(mending: Mending, path: str, gaps: Gaps) -> None:
    """Record permanent gaps for the next start, and delete its notes on unchanged logs."""
    if mending.dry_run or not (mending.steps or mending.unmended):
        return
    gaps.write(gaps.content())
    witness = f"{path}/{unchanged_logs.FILE_NAME}"
    if mending.disk.exists(witness):
        mending.disk.remove(witness)
        # Otherwise a power cut restores the file, and the next start reports these losses again.
        mending.disk.sync_directory(path)


def _bounds(mending: Mending, path: str, told: Report) -> None:
    """Move the published read bounds aside if they no longer hold."""
    where, text = (
        f"{path}/{durable_read_bounds.NAME}",
        "moved aside; the next start writes a new one",
    )
    wrong = mending.steps or any(
        finding.damage and finding.path == where for finding in told.findings
    )
    if wrong and mending.disk.exists(where) and mending.step(where, text):
        mending.move_aside(where)


def _checkpoints(
    mending: Mending,
    path: str,
    checkpoints: Checkpoints,
    ends: Ends,
    places: dict[TopicPartition, str] | None,
) -> None:
    """Lower checkpoints to the ends of shortened logs; move unreadable checkpoints aside."""
    if places is not None:
        for name in checkpoints.broken:
            text = "moved aside; the next start works out again what it said"
            if name == file_names.LOG_STARTS:
                text = "moved aside; records that were deleted below a log's start may reappear"
            if mending.step(f"{path}/{name}", text):
                mending.move_aside(f"{path}/{name}")
    for name in _OFFSETS:
        said = checkpoints.all_of(name)
        beyond = {place: end for place, end in ends.items() if said.get(place, -1) > end}
        if not beyond:
            continue
        words = ", ".join(f"{place} {said[place]} -> {end}" for place, end in beyond.items())
        if mending.step(f"{path}/{name}", f"brought down to where the logs end: {words}"):
            mending.disk.replace(f"{path}/{name}", text_files.write_offsets(said | beyond))
