"""`headrace trace`: replication step by step.

trace    textbook cases, played in this process live     `--follow`: changes of partitions in a
running cluster
"""
