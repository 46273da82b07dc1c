"""A log directory: partition by partition, then the checkpoints."""

from headrace.log import bounds, files, names
from headrace.log.identity import read_identity
from headrace.log.repair.beside import mend_beside, sync_segments
from headrace.log.repair.plan import Mending
from headrace.log.repair.salvage import salvage
from headrace.log.verify import Finding, Kind, PartitionFacts, Report, verify_partition
from headrace.log.verify.directory import Checkpoints, bounds_of, check_bound, partitions_in
from headrace.model.errors import ConfigError
from headrace.model.nouns import TopicPartition

_OFFSETS = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS)
Ends = dict[TopicPartition, int]


def repair_directory(
    mending: Mending, path: str, only: TopicPartition | None = None, report: Report | None = None
) -> None:
    """Mend the log directory, or one partition of it. The lock is the caller's to hold. OSError.

    `report` counts what was read.
    """
    told = report or Report()
    checkpoints = Checkpoints(mending.disk, path, told)
    try:
        read_identity(mending.disk, path)
    except ConfigError as error:
        mending.cannot(
            f"{path}/{names.META_PROPERTIES}",
            f"{error}; write version=0, broker.id and cluster.id into it by hand",
        )
    places = partitions_in(mending.disk, path)
    said = bounds_of(mending.disk, path, told)
    ids: dict[str, bytes] = {}
    ends: Ends = {}
    for place, where in places.items():
        if only is not None and place != only:
            continue
        facts = _partition(mending, place, where, checkpoints, told, ids)
        check_bound(said, place, facts, path, told)
        ends[place] = facts.end
    _bounds(mending, path, told)
    _checkpoints(mending, path, checkpoints, ends, None if only else places)


def _partition(
    mending: Mending,
    place: TopicPartition,
    where: str,
    checkpoints: Checkpoints,
    told: Report,
    ids: dict[str, bytes],
) -> PartitionFacts:
    around = checkpoints.around(place)
    facts, findings = _looked_at(mending, where, checkpoints, place, told)
    bad = {one.path for one in findings if one.damage and one.kind is Kind.BATCH}
    changed = bool(bad) and salvage(mending, facts, bad)
    if changed:
        again = Report()
        facts = verify_partition(mending.disk, where, again, around)
        # What salvage could not keep is a hole now, and said: not one more finding.
        findings = [one for one in again.findings if one.kind is not Kind.GAP]
    if facts.topic_id is not None:
        ids.setdefault(place.topic, facts.topic_id)
    mend_beside(mending, facts, findings, ids.get(place.topic))
    for one in findings:
        if one.damage and one.kind is Kind.GAP and one.path.endswith((where, names.LOG)):
            mending.cannot(one.path, f"{one.text}: nobody has them any more")
    if (around.recovery_point > facts.end or changed) and not mending.dry_run:
        sync_segments(mending, facts)
    return facts


def _looked_at(
    mending: Mending, where: str, checkpoints: Checkpoints, place: TopicPartition, told: Report
) -> tuple[PartitionFacts, list[Finding]]:
    before = len(told.findings)
    facts = verify_partition(mending.disk, where, told, checkpoints.around(place))
    return facts, told.findings[before:]


def _bounds(mending: Mending, path: str, told: Report) -> None:
    """What readers of the files were told does not hold any more, or never did."""
    where, text = f"{path}/{bounds.NAME}", "moved aside; the next start writes it anew"
    wrong = mending.steps or any(one.damage and one.path == where for one in told.findings)
    if wrong and mending.disk.exists(where) and mending.step(where, text):
        mending.move_aside(where)


def _checkpoints(
    mending: Mending,
    path: str,
    checkpoints: Checkpoints,
    ends: Ends,
    places: dict[TopicPartition, str] | None,
) -> None:
    """Bring the checkpoints into line with logs that end earlier; replace unreadable ones."""
    if places is not None:
        for name in checkpoints.broken:
            text = "moved aside; the next start works out again what it said"
            if name == names.LOG_STARTS:
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
            mending.disk.replace(f"{path}/{name}", files.write_offsets(said | beyond))
