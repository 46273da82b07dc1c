"""The real disk, clock and threads: what `ports` asks for, on a POSIX system."""
