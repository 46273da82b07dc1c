"""Coordinators of groups, share groups and transactions; their state is in internal topics."""
