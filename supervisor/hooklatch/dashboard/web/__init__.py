"""The dashboard's web side: access control, pages, and the actions behind their forms."""
