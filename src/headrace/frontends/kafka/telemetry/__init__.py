"""Client metrics (KIP-714)."""
