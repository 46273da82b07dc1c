"""Share groups (KIP-932): members, assignments, settings, and offsets for administrators."""
