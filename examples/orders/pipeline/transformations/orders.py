"""Orders and their payments: a join, a window, and alerts to a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headrace import pipeline as hp

ORDER = "id BIGINT NOT NULL, sku STRING, amount DECIMAL(12,2), at TIMESTAMP NOT NULL"
PAYMENT = "id BIGINT NOT NULL, paid_at TIMESTAMP NOT NULL"


@dp.temporary_view
def placed() -> DataFrame:
    return hp.topic("orders", ORDER, event_time="at", watermark="10 minutes")


@dp.temporary_view
def payments() -> DataFrame:
    return hp.topic("payments", PAYMENT, event_time="paid_at", watermark="10 minutes", meta=False)


@dp.table(format="delta", partition_cols=["day(at)"])
def paid_orders() -> DataFrame:
    """Orders that were paid within half an hour."""
    orders, paid = hp.read("placed").alias("o"), hp.read("payments").alias("p")
    in_time = sf.expr("o.id = p.id AND paid_at BETWEEN at AND at + INTERVAL 30 MINUTES")
    return orders.join(paid, in_time).select("o.id", "sku", "amount", "at", "paid_at")


@dp.table(format="delta")
@hp.expect_or_drop("revenue is positive", "revenue > 0")
def revenue() -> DataFrame:
    """Revenue by article in windows of five minutes, written when a window is over."""
    window = sf.window("at", "5 minutes").alias("window")
    sums = hp.read("placed").groupBy(window, "sku").agg(sf.sum("amount").alias("revenue"))
    return sums.select(sf.col("window.start").alias("window_start"), "sku", "revenue")


dp.create_sink("alerts", "headrace", {"topic": "order-alerts"})


@dp.append_flow(target="alerts")
def large_orders() -> DataFrame:
    """Orders above 10,000 as records, by article."""
    value = sf.to_json(sf.struct("id", "sku", "amount", "at")).alias("value")
    return hp.read("placed").where("amount > 10000").select(sf.col("sku").alias("key"), value)
