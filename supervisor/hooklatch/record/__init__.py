"""The decision record: what was decided, in a chain that shows what was changed.  Knows files; decides nothing."""
