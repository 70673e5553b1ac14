"""The explorer: a run as one page to look at, served on this machine or written as one file."""
