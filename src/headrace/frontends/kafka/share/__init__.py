"""The share groups' APIs (KIP-932)."""
