"""Options of programs: tables of how each takes its own, and the reader of words by such a table."""
