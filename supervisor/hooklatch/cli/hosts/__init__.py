"""The commands that connect other programs with hooklatch, and what `doctor` asks about them."""
