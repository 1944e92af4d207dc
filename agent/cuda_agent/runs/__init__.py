"""Runs: where models, sandboxes, tools, the loop and the judge are put together."""
