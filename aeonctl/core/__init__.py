"""The pure ring: facts in, plans out. No I/O, no clock, no environment."""
