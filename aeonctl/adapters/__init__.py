"""The outside world, one foreign library each, behind the ports."""
