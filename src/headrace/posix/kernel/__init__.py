"""Files by Linux system calls: asynchronous I/O, pages in the cache, locks of other processes."""
