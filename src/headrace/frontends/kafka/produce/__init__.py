"""Produce: single requests, runs of similar ones, answers once committed."""
