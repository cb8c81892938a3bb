"""Writes hooklatch into the settings of other programs: pure editing of texts, and beside it thin handling of files."""
