"""Spark reads topics: a data source that needs no jar, and what makes it easy to run.

    import headrace.spark

    spark = headrace.spark.session("orders")
    orders = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()
    )

In a session of your own, import this before the session starts, or `headrace.spark.attach(spark)`:
that registers the format with this Python, and makes streaming queries show as consumer groups.

    source.py         the DataSource; batch_reader.py and stream_reader.py are its readers
    options.py        every option by name, checked before anything else happens
    plan.py           offsets to ranges to tasks: decided from numbers alone
    resume.py         where a micro-batch begins, what was lost, another topic's checkpoint
    offsets.py        what a query's checkpoint says
    cluster.py        what the driver asks of the brokers
    tasks.py, read.py what a task is and does: fetch, decode, hand over
    connections.py    connections that a worker keeps between tasks
    security.py       by which settings each process connects: options, or a file it reads
    register.py       the format made known to a session, and the Python it runs in
    listener.py       attach(): offsets of every batch, the last one too, committed to the group
    python.py         the Python of Spark's processes; worker_daemon.py forks its workers
    session.py        session(), builder(); java.py finds a Java

Row schema and option names are those of Spark's own Kafka connector. Filters are never pushed down
(`docs/adr`): in Spark 4.3.0 pushed filters leak into later queries; use the options instead.
"""

from headrace.spark.sessions.listener import attach
from headrace.spark.sessions.register import prepare
from headrace.spark.sessions.session import builder, session

__all__ = ["attach", "builder", "session"]

prepare()
