"""Fetch, its sessions, and the offsets clients ask for."""
