"""`python -m lagwise` is the `lagwise` command."""

from .cli import main

main()
