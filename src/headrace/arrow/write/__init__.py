"""Arrow to record batches, and topics to files that other tools read."""
