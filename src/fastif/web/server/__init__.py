"""The server of the explorer: for one person on one machine, behind a token, with nothing to read but the run."""
