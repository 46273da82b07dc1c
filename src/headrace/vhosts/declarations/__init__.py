"""Where durable declarations are stored.

declaration_log  the log of declarations: records of a compacted internal topic
takeover         declarations of earlier versions: nodes of the metadata store
"""
