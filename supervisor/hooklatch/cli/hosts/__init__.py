"""The commands that connect hosts with hooklatch, and the checks of hosts that `doctor` makes."""
