"""migsaw fits GPU work into NVIDIA MIG slices and proves what that saved.

The public names are those of ``__all__``; everything else may change without notice.
"""

from migsaw.errors import InfeasibleError, InputError, MigsawError, TargetError

__version__ = "0.1.0"

__all__ = ["InfeasibleError", "InputError", "MigsawError", "TargetError", "__version__"]
