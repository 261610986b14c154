"""`python -m bass_draft` is `bass-draft`."""

import sys

from bass_draft.command_line import main

sys.exit(main())
