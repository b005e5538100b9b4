"""The bulk replay: a part of the past written to files, or published to another server."""
