"""The values that pages show: texts made harmless, decisions, differences, charts.  Pure."""
