"""How much may be asked for: one place for the server, its command and its page. Knows numbers alone."""

LONGEST_QUESTION = 10_000  # characters
LARGEST_RATE = 100.0  # of the steps of a correction
MOST_MARKS = 10_000
MOST_BODY = 128 * 1024  # bytes of a request: two of the longest texts in any script
MOST_MARKS_BODY = 8 * 1024 * 1024  # of one with marks: 800 for each, most of it the name of a class
