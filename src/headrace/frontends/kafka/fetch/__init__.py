"""Fetch, fetch sessions, and offsets by time or leader epoch."""
