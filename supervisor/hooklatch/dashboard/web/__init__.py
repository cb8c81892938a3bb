"""What a browser sees: who may enter, the pages, and the actions behind their forms."""
