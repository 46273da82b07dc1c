"""Parts of a Delta table's log: the marker and statistics."""
