"""The groups' APIs: members, committed offsets, administration."""
