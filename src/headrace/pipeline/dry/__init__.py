"""Dry runs: the newest records of each topic through a pipeline, and nothing is written."""
