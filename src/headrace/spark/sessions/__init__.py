"""Spark sessions: Java, Python workers, registration of the format, the listener."""
