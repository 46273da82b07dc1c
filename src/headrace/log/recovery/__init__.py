"""From a directory to a log: after a clean stop, a kill, a power cut."""
