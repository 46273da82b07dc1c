"""Nouns and errors: what every other room speaks in. Imports nothing of ours."""
