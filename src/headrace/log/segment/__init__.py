"""One segment: its `.log` file, its indexes, and reading, checking and finding in them."""
