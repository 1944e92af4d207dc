"""The tools a model may call. They know a `Sandbox` and nothing else of the host."""
