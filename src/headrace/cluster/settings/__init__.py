"""Settings in the metadata store: changed, and applied while the broker runs."""
