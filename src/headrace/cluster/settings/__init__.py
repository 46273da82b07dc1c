"""Settings kept in the metadata store: described, altered, and applied while the broker runs."""
