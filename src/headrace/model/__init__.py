"""Basic types and errors that all other rooms use. Imports no other room."""
