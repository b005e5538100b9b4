"""Settling a log that does not go on where the lake ends."""
