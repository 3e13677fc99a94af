"""One function per verb, reading top to bottom."""
