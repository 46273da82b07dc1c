"""Pulls: reads of queues, and pulls that wait."""
