"""Requests on messages that are delivered later: sent back, delayed, recalled, undecided."""
