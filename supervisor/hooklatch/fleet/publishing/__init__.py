"""What publishers do: check a folder, make a version of it, commit it, widen it, take it back."""
