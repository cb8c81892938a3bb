"""One program each: its events, its documents, and the answers that it honours.  Pure: no sockets, no files."""
