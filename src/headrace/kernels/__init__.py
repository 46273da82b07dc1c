"""Record-by-record work compiled by numba, and its twins in plain Python."""
