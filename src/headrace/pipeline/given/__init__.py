"""Runs of a pipeline on records that a test gives: no broker, real decoders, checks and state."""
