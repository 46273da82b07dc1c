"""Segments: a `.log` file with its indexes; reading, checking and searching batches in it."""
