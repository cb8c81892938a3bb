"""Reads shell text strictly: each byte is taken by one rule, and what no rule takes is refused, with its place.

The subset is what bash and POSIX shells are known to read in one way only, by their manuals and by trial.  A text in
which a shell ran what is not shown here takes syntax out of the subset; it never adds a rule beside one.
Knows characters, words and the grammar of commands; knows no program, and runs nothing.
"""
