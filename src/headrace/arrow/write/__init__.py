"""Arrow rows to record batches, and topics to files of other formats."""
