"""`python -m localcloud`."""

from localcloud.command import main

main()
