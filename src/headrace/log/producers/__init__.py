"""What a partition remembers of its producers, so that a retry is not written twice."""
