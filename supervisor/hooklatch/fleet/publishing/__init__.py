"""The work of publishers: check a folder, make a version of it, commit it, widen it, roll it back."""
