"""Other libraries behind the protocols of fastif; each is an extra, and nothing below imports them."""
