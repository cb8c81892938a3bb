"""One module for each agent program that calls hooklatch through its own hook commands."""
