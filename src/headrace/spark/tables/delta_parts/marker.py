"""The marker of a Delta table: application transactions of the commit that wrote the batch.

    headrace:<pipeline>                     the batch
    headrace:<pipeline>:digest              digest of the planned offsets
    headrace:<pipeline>:query               digest of the query's id
    headrace:<pipeline>:columns             digest of the rows' columns
    headrace:<pipeline>:quarantine          digest of a manifest of refused records
    headrace:<pipeline>:quarantine-batch    the batch of that manifest

They stay in the table's state when log entries expire. delta-rs refuses a commit that meets a
concurrent one with the same application's transaction.
"""

from dataclasses import replace

from deltalake import CommitProperties, DeltaTable, Transaction

from headrace.spark.quarantine.manifest import NOTHING_REFUSED
from headrace.spark.tables.marker import UNKNOWN_DIGEST, Marker

MARKER = "headrace"
"""Name of the marker in a commit's metadata, for people and for error texts."""
_MANIFEST, _MANIFEST_BATCH = "quarantine", "quarantine-batch"


def marker_of(table: DeltaTable, pipeline: str) -> Marker | None:
    """Return the pipeline's marker from the application transactions; None if it has none."""
    application = _application(pipeline)
    batch = table.transaction_version(application)
    if batch is None:
        return None
    digest, query, columns = (
        table.transaction_version(f"{application}:{name}") or UNKNOWN_DIGEST
        for name in ("digest", "query", "columns")
    )
    marker = Marker(pipeline, batch, digest, query, columns)
    # A batch without refused records leaves the transactions of the last manifest as they are.
    if table.transaction_version(f"{application}:{_MANIFEST_BATCH}") != batch:
        return marker
    manifest = table.transaction_version(f"{application}:{_MANIFEST}")
    return replace(marker, quarantine=manifest or NOTHING_REFUSED)


def properties_of(marker: Marker | None, *more: Transaction) -> CommitProperties:
    """Return commit properties that store the marker and more application transactions."""
    if marker is None:
        return CommitProperties(app_transactions=list(more))
    application = _application(marker.pipeline)
    manifest = []
    if marker.quarantine != NOTHING_REFUSED:
        manifest = [
            Transaction(f"{application}:{_MANIFEST}", marker.quarantine),
            Transaction(f"{application}:{_MANIFEST_BATCH}", marker.batch),
        ]
    return CommitProperties(
        app_transactions=[
            Transaction(application, marker.batch),
            Transaction(f"{application}:digest", marker.digest),
            Transaction(f"{application}:query", marker.query),
            Transaction(f"{application}:columns", marker.columns),
            *manifest,
            *more,
        ],
        custom_metadata={MARKER: marker.to_json()},
    )


def _application(pipeline: str) -> str:
    return f"headrace:{pipeline}"
