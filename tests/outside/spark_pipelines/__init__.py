"""A project under `headrace pipeline` and under Spark's own `spark-pipelines`."""
