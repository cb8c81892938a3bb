"""A strict reader of shell text: one rule takes each byte, and a text that no rule takes is refused, with its place.

The subset is the syntax that bash and POSIX shells read in one way only, by their manuals and by trial.  If a shell
runs a command that the reader did not show, syntax is taken out of the subset.  No second rule is added beside one.

    for command in list_simple_commands(parse_script("cd /srv && ls | wc -l")):
        print(command.text)

It does not know programs, and runs nothing.
"""
