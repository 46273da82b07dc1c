"""Parts of Delta tables: markers, statistics, versions as lists of files, and swaps of files."""
