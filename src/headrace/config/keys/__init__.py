"""Every configuration key, one file an area, one row a key: type, default, bounds, effect."""
