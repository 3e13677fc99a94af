"""aeonctl: serve a large model at home with vLLM in a container."""

__version__ = "0.1.0"
