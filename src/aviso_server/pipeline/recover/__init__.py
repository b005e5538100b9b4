"""Reconciling a log that does not continue where the lake ends."""
