"""The process between one host's daemon and the engine: versions in, records out.  Decides nothing."""
