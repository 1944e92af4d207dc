"""The model `builtin`: a deterministic policy that writes kernels for a few families of operators, without a key."""
