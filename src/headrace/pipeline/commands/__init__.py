"""`headrace pipeline`: pipelines on Spark."""
