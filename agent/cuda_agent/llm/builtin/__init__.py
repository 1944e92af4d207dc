"""The model `builtin`: a deterministic policy that writes kernels for two families of operators, without a key."""
