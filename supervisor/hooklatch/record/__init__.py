"""The decision record: a hash chain of decisions that reveals changes.  Knows files; does not decide anything."""
