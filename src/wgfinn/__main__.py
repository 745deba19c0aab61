"""`python -m wgfinn` is the command line."""

from wgfinn.cli import main

if __name__ == "__main__":
    main()
