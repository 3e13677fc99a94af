"""Parse, one workflow call, one output call."""
