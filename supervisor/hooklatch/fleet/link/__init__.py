"""The process that connects one host's daemon to the engine: versions in, the record out.  Decides nothing."""
