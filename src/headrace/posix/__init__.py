"""The real disk, clock, network and threads: what `ports` asks for, on a POSIX system."""
