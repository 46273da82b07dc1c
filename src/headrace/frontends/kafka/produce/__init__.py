"""Produce: single requests, runs of alike ones, answers once committed."""
