"""The store between publishers and hosts: one interface, and one module for each engine.  Knows bytes, not policy."""
