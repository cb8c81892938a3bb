"""Bridges to agent SDKs: one module each, an optional extra each; over one guard and one translation of decisions."""
