"""Record batches to Arrow: segments, Fetch responses, topics without a broker."""
