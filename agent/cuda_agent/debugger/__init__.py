"""The debugger: drives a run from above, one step at a time. The loop below knows nothing of it."""
