"""The descriptions of the command line for other programs: shells that complete it, and readers of its JSON.

They are made from every command's parser and the shape of its output, and run no command.
"""
