"""Versions of Delta tables as lists of files, and commits that replace named files."""
