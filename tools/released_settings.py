"""Write the settings and defaults of the present version, when it is released: `python -m tools.released_settings`.

A release runs it once. Later versions compare their defaults with it.
"""

import json

from mailwright import __version__
from mailwright.ops.release_files import FOLDER
from mailwright.ops.released_settings import current_defaults

if __name__ == "__main__":
    file = FOLDER / f"{__version__}.json"
    file.write_text(json.dumps(current_defaults(), indent=0, sort_keys=True) + "\n", encoding="utf-8")
