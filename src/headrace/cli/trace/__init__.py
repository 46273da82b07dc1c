"""`headrace trace`: replication step by step.

trace    textbook cases, played in this process
live     `--follow`: what changes of partitions of a running cluster
"""
