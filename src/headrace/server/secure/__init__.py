"""`headrace serve --secure`: certificates, first user and client files, created once (ADR 46).

preparation   authority, certificate and password: created, stored, renewed, checked for damage
first_user    the broker that creates its first user before it accepts clients client_files  the
configuration files for clients, as text
"""
