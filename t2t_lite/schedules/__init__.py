"""Schedules, one per file; each registers itself on first use."""
