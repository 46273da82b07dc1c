"""What is beside the segments, written anew from what the log says."""

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
    """Write anew all that `findings` speak of. OSError.

    `begins_later`: segments are lost, so that the epochs may tell of offsets nobody has.
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
    """Move the snapshot aside and write that of the end: it spares the next start some work."""
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
    text = "moved aside; the broker knows the topic's id and writes it anew"
    if topic_id is not None:
        text = f"moved aside; written anew with topic id {text_files.encode_uuid(topic_id)}"
    if mending.step(path, text):
        mending.move_aside(path)
        if topic_id is not None:
            mending.disk.replace(path, text_files.write_partition_metadata(topic_id))


def sync_segments(mending: Mending, facts: PartitionFacts) -> None:
    """Make the log durable, before its end becomes the recovery point."""
    for segment in facts.segments:
        with closing(mending.disk.open(segment.path)) as file:
            file.sync()
    mending.disk.sync_directory(facts.path)
