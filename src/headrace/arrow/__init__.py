"""Record batches to Arrow: one decoder for segments on disk and for what Fetch brings.

    decode               PartitionDecoder: bytes of whole batches in, pyarrow.RecordBatch out
    plain_batches        its quick way: many plain batches in one call of a kernel
    aborted_transactions what read_committed leaves out
    decompress           the codecs, with objects kept between batches
    columns              output buffers (reused once nobody refers to them) and the schema
    amqp_column          what AMQP said of messages, made of key and headers: amqp_properties reads
                         content headers, amqp_tables field tables, byte_ranges does the arithmetic
    assemble, c_data     buffers become a RecordBatch by Arrow's C data interface, uncopied
    open_topic           `open`: a topic's segments on disk as a RecordBatchReader, without a broker
    partition_files      finding segments and positions beside whoever writes them
    segment_stream       reading one partition
    parallel             reading several at a time
    topic_source         a topic of a directory or of brokers, up to a bound
    sql, sql_columns,    SQL on topics by DuckDB: the session, columns of JSON values,
    sql_answer           what comes back
    topic_dataset        a topic as DuckDB scans it
    topic_files          a topic as Parquet, CSV or lines of JSON (json_lines)
    warm                 compiling the kernels beforehand

The kernels, and their twins in plain Python, are in `headrace.kernels`.

Needs the `arrow` extra. Bytes are never trusted: every length is checked before a byte moves, and a
batch that breaks the format raises `CorruptBatch`.
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
