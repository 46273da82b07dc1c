"""An access log as two tables, requests and minutes; lines that cannot be read are quarantined."""

from access_line import PARSERS, AccessLine
from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headrace import pipeline as hp

FORMAT = "timed"  # or combined, or json: access_line.py describes them
NOISY_REQUESTS_MIN = 300  # a minute, from one client


def lines() -> DataFrame:
    columns, late = hp.parser(PARSERS[FORMAT], AccessLine), "2 minutes"
    return hp.topic("access-log", columns, event_time="event_time", watermark=late, heartbeats=True)


@dp.table(format="parquet", partition_cols=["day(event_time)"])
@hp.expect("server errors are rare", "status < 500", at_least=0.95)
def requests() -> DataFrame:
    return lines().where("status IS NOT NULL")  # a heartbeat has none


@dp.table(format="parquet")
@hp.expect_or_fail("counts add up", "requests >= redirects + client_errors + server_errors")
def windows() -> DataFrame:
    measures = [
        "count(status) AS requests",
        "count_if(status BETWEEN 300 AND 399) AS redirects",
        "count_if(status BETWEEN 400 AND 499) AS client_errors",
        "count_if(status >= 500) AS server_errors",
        "sum(body_bytes) AS bytes",
        "approx_count_distinct(client, 0.01) AS clients",
        "percentile_approx(request_time_ms, array(0.5, 0.99), 10000) AS ms",
        "filter(approx_top_k(path, 5), top -> top.item IS NOT NULL) AS paths",
        f"filter(approx_top_k(client, 10), top -> top.count >= {NOISY_REQUESTS_MIN}) AS noisy",
    ]
    minute = sf.window("event_time", "1 minute").alias("minute")
    counted = lines().groupBy(minute).agg(*map(sf.expr, measures))
    return counted.where("requests > 0").selectExpr(  # a heartbeat's own minute has none
        "minute.start AS window_start",
        *("requests", "redirects", "client_errors", "server_errors", "bytes", "clients"),
        *("ms[0] AS p50_ms", "ms[1] AS p99_ms"),
        "transform(paths, top -> struct(top.item AS path, top.count AS requests)) top_paths",
        "transform(noisy, top -> struct(top.item AS client, top.count AS requests)) noisy_clients",
    )
