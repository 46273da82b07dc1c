"""Plants faults in the source, one at a time, and asks whether the suite notices each."""
