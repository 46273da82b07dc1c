"""Producers: batches by partition, sequence numbers, transactions."""
