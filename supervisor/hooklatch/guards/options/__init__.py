"""Options of programs: a table for each program, and the parser of words by such a table."""
