"""Record batches, the storage format of all protocols: layout, records, compression, CRC."""
