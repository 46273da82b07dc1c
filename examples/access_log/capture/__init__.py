"""How the demo's log was made: nginx, an application behind it, and traffic (README.md)."""
