"""What the commands take where nothing is said, for those that must not import much."""

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
"""Where the cluster is."""
