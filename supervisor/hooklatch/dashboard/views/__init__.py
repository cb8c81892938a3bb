"""What pages show, as plain values: texts made harmless, decisions, differences, charts.  Asks nobody; pure."""
