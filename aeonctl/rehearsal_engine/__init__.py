"""The rehearsal engine: a process that speaks vLLM's HTTP API and writes a boot log in vLLM's shape.

It takes the argv and the environment that ``vllm`` would get in a container, needs no GPU, no Docker and no
network, and uses the standard library alone. It runs no model: answers come from a few rules. Start it with
``python -m aeonctl.rehearsal_engine serve MODEL_DIR [vLLM's flags]``.
"""
