"""The kinds of identifier field: text, number, moment, place."""
