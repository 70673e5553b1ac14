"""Pictures, drawn by matplotlib (`pip install fastif[plots]`): one kind of picture a file, one look for all of them."""
