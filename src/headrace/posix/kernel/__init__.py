"""Linux system calls that Python does not have: asynchronous I/O, pages in the cache."""
