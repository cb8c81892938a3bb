"""The writing of hooklatch into the settings of other programs: pure editing of texts, and thin handling of files."""
