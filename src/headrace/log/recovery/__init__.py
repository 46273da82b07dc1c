"""Open a log from its directory: after a clean stop, a kill or a power cut."""
