"""Every configuration key, one file an area: name, type, default, bounds, effect."""
