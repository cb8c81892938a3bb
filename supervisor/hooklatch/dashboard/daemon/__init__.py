"""The dashboard's data: the daemon's responses and announcements, and files.  Does not know pages."""
