"""Record batches to Arrow and back: one decoder for segments on disk and for Fetch responses.

    read/decode             PartitionDecoder: whole batches in, RecordBatches out
    read/plain_batches      its fast path: many plain batches in one call of a kernel
    read/aborted_transactions  batches that read_committed readers skip
    read/decompress         the codecs, with objects reused between batches
    read/columns            output buffers, reused once unreferenced, and the schema
    read/assemble, c_data   buffers to RecordBatches by Arrow's C data interface, uncopied
    read/open_topic         `open`: a topic's segments on disk, without a broker
    read/partition_files    finding segments and positions while a broker writes
    read/segment_stream     reading one partition
    read/parallel           reading several partitions at once
    typed/                  JSON values to typed columns, and why others are refused
    amqp/                   the column `amqp`: AMQP properties and headers of records
    sql/                    SQL on topics by DuckDB: sessions, JSON columns, topic sources
    write/                  rows to record batches; topics to Parquet, CSV or lines of JSON
    warm                    compiling the kernels beforehand

The kernels, and their twins in plain Python, are in `headrace.kernels`.

Needs the `arrow` extra. Bytes are never trusted: every length is checked before a byte is copied,
and a batch that violates the format raises `CorruptBatch`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.arrow.read.open_topic import open as open  # noqa: A004 - headrace.arrow.open is its name

__all__ = ["open"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - pyarrow is imported by who asks for `open`
    if name == "open":
        try:
            from headrace.arrow.read import open_topic
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "headrace":
                raise
            from headrace.config.installing import install_command

            missing = f"{error.name} is missing: {install_command('pyarrow', 'numba', 'numpy')}"
            raise ModuleNotFoundError(missing, name=error.name) from None
        return open_topic.open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__name__", "__path__"]
