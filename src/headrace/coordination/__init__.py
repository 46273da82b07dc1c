"""Coordinators: groups, share groups, transactions, kept in partitions of internal topics."""
