"""Record batches to Arrow: segments, fetched bytes, topics without a broker."""
