"""The environments of sources: what a source requires, the interpreters that files name, and those that are made."""
