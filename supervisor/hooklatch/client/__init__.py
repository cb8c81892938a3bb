"""The client: one pure core, and a shell each for trio and for threads."""
