"""Record batches: the storage format of every protocol. Layout, records, compression, CRC."""
