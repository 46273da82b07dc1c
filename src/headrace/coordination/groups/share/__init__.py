"""Share groups (KIP-932) as groups: members, assignments, settings, offsets."""
