"""What describes the command line to other programs: shells that complete it, editors and scripts that check JSON.

Knows every command's parser and the shape of its output; runs no command.
"""
