"""Small files of a log directory with a format of their own."""
