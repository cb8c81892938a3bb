"""The decision record: a hash chain of decisions that reveals changes."""
