"""Reading: positions, fetched batches, group and share group members."""
