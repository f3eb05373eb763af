"""``python -m puarena``."""

from puarena.cli import main

if __name__ == "__main__":
    main()
