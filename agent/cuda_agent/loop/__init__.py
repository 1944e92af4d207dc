"""The loop: a turn is one reply of the model and its calls; the host's own verdicts say when it is enough."""
