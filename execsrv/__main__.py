"""``python -m execsrv`` is the command ``execsrv``."""

from execsrv.cli import main

if __name__ == "__main__":
    main()
