"""Rebuild the files next to segments from the log."""

from contextlib import closing
from pathlib import PurePosixPath

from headrace.log import file_names, text_files
from headrace.log.segment.rebuild_indexes import reindex
from headrace.log.segment.transaction_index import ENTRY
from headrace.logtools.repair.plan import Mending
from headrace.logtools.verify import Finding, Kind, PartitionFacts
from headrace.model.nouns import Offset


def mend_beside(
    mending: Mending,
    facts: PartitionFacts,
    findings: list[Finding],
    topic_id: bytes | None,
    *,
    begins_later: bool = False,
) -> None:
    """Rebuild all files that `findings` name. Raises OSError.

    `begins_later`: segments were lost, so leader epochs may refer to offsets that no longer exist.
    """
    wrong: dict[Kind, list[str]] = {}
    for finding in findings:
        if finding.damage:
            wrong.setdefault(finding.kind, []).append(finding.path)
    for path in dict.fromkeys(wrong.get(Kind.INDEX, []) + wrong.get(Kind.TIME_INDEX, [])):
        _index(mending, facts, path)
    for path in wrong.get(Kind.TXN_INDEX, []):
        _aborted(mending, facts, path)
    for path in wrong.get(Kind.SNAPSHOT, []):
        _snapshot(mending, facts, path)
    if wrong.get(Kind.EPOCHS) or begins_later:
        _epochs(mending, facts)
    for path in wrong.get(Kind.METADATA, []):
        _metadata(mending, path, topic_id)
    for path in wrong.get(Kind.GAP, []):
        if path.endswith(file_names.SEGMENT_SUFFIXES[1:]) and mending.step(path, "moved aside"):
            mending.move_aside(path)


def _base_of(path: str) -> int:
    parsed = file_names.parse_segment_file(PurePosixPath(path).name)
    return parsed[0] if parsed else 0


def _index(mending: Mending, facts: PartitionFacts, path: str) -> None:
    if mending.step(path, "built again from the log"):
        reindex(mending.disk, facts.path, Offset(_base_of(path)))


def _aborted(mending: Mending, facts: PartitionFacts, path: str) -> None:
    if not mending.step(path, "built again from the log"):
        return
    transactions = facts.aborted.get(_base_of(path), [])
    mending.disk.replace(path, b"".join(ENTRY.pack(0, *entry) for entry in transactions))


def _snapshot(mending: Mending, facts: PartitionFacts, path: str) -> None:
    """Move the snapshot aside and write one of the log end, which saves the next start a replay."""
    end = f"{facts.path}/{file_names.segment_file(facts.end, file_names.SNAPSHOT)}"
    if not mending.step(path, f"moved aside; the producers at the log's end go to {end}"):
        return
    mending.move_aside(path)
    mending.disk.replace(end, facts.producers.kept.snapshot())


def _epochs(mending: Mending, facts: PartitionFacts) -> None:
    path = f"{facts.path}/{file_names.LEADER_EPOCHS}"
    if mending.step(path, "built again from the log"):
        if mending.disk.exists(path):
            mending.move_aside(path)
        mending.disk.replace(path, text_files.write_epochs(facts.epochs.entries))


def _metadata(mending: Mending, path: str, topic_id: bytes | None) -> None:
    text = "moved aside; the broker knows the topic's id and rewrites it"
    if topic_id is not None:
        text = f"moved aside; rewritten with topic id {text_files.encode_uuid(topic_id)}"
    if mending.step(path, text):
        mending.move_aside(path)
        if topic_id is not None:
            mending.disk.replace(path, text_files.write_partition_metadata(topic_id))


def sync_segments(mending: Mending, facts: PartitionFacts) -> None:
    """Flush the segments before their end becomes the recovery point."""
    for segment in facts.segments:
        with closing(mending.disk.open(segment.path)) as file:
            file.sync()
    mending.disk.sync_directory(facts.path)
