"""Where durable declarations are stored.

declaration_log    the log of declarations: records of a compacted internal topic
declaration_shard  one of its partitions, loaded
stored_changes     plain values of both
takeover           declarations of earlier versions: nodes of the metadata store
"""
