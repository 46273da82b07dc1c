"""Parcels as their messages describe them; messages that do not fit are quarantined."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from headrace import pipeline as hp

PARCEL = "id BIGINT NOT NULL, customer STRING, grams INT, posted_at TIMESTAMP NOT NULL"


@dp.table(format="delta", partition_cols=["day(posted_at)"])
@hp.expect_or_quarantine("a parcel has a weight", "grams > 0")
def parcels() -> DataFrame:
    """Parcels with their postage in cents: 60 for each begun 500 g, and 100."""
    postage = (100 + 60 * sf.ceil(sf.col("grams") / 500)).alias("postage")
    return hp.topic("parcels", PARCEL).select("*", postage)
