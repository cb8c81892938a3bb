"""What stands in one entry: fields, excerpts and redaction.

Pure; knows payloads, no file.
"""
