"""The content of one entry: fields, excerpts and redaction.

Pure; knows payloads, but no file.
"""
