"""The files of the record as bytes: the chain, segments, slots, and how they are read.

Knows formats; knows no policy and no decision.
"""
