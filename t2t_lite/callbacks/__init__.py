"""Callbacks that have names, one per file; each registers itself when it is first asked for."""
