"""A tool call as guards judge it: the kind of the tool by its name, and the texts among its arguments."""
