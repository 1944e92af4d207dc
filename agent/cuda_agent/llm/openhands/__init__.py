"""Any LLM over HTTP, through the LLM layer of openhands-sdk. Its types and litellm's stay in `sdk.py`."""
