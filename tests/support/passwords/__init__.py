"""A password that is like no other text: hosts that hold it, and a search of all that AWS keeps."""
