"""Settings kept in the metadata store: altered, and applied while the broker runs."""
