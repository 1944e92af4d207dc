"""`python -m cuda_agent` is `cuda-agent`."""

from cuda_agent.cli import main

if __name__ == "__main__":
    main()
