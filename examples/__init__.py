"""Runnable pipelines, each with its small real data: `python -m examples.<name>.demo`."""
