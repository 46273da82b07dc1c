"""Data source and sink for Spark, in Python without a jar, and helpers that start a session.

    import headrace.spark

    spark = headrace.spark.session("orders")
    orders = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()
    )

With a session of your own, import this package before the session starts, or call
`headrace.spark.attach(spark)`: that registers the format with this Python, and shows streaming
queries as consumer groups.

    source/source.py           the DataSource; batch_reader.py and stream_reader.py are its readers
    source/options.py          every option by name, validated before anything else happens
    source/plan.py             offsets to ranges to tasks: arithmetic alone
    source/resume.py           where a micro-batch begins, data loss, another topic's checkpoint
    source/offsets.py          the offsets that a query's checkpoint stores
    source/cluster.py          the driver's requests to the brokers
    source/tasks.py, read.py   a task: fetch, decode, return RecordBatches
    source/connections.py      connections that a worker reuses between tasks
    security.py                security settings of each process: options, or a file it reads
    sink/                      the sink: tasks write in transactions, the driver commits them
    tables/                    writes of micro-batches to tables, each exactly once
    sessions/register.py       registration of the format, and the Python that Spark runs
    sessions/listener.py       attach(): commits the offsets of every batch to a consumer group
    sessions/python.py         the Python of Spark's processes; worker_daemon.py forks its workers
    sessions/session.py        session(), builder(); java.py finds a Java; row_bound.py: its batches

Row schema and option names are those of Spark's own Kafka connector. Filters are never pushed down
(`docs/adr`): in Spark 4.3.0 pushed filters leak into later queries; use the options instead.
"""

from headrace.spark.sessions.listener import attach
from headrace.spark.sessions.register import prepare
from headrace.spark.sessions.session import builder, session

__all__ = ["attach", "builder", "session"]

prepare()
