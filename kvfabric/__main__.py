"""``python -m kvfabric``: the command line without its script."""

from kvfabric.cli import main

if __name__ == "__main__":
    main()
