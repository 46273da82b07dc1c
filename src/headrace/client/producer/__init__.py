"""Writing: batches by partition, sequence numbers, transactions."""
