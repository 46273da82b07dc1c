"""Replays: a flow computed again beside its table, compared with it, and put in its place."""
