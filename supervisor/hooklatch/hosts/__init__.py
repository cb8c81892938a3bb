"""One module for each agent program that calls hooklatch by its own hook commands."""
