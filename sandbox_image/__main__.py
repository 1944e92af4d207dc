"""`python3 -I JUDGE_HOME` starts the judge: this file stands in JUDGE_HOME beside the package."""

from cuda_agent_judge.cli import main

raise SystemExit(main())
