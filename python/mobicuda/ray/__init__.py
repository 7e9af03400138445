"""Pictures over several machines, by Ray (pip install 'mobicuda[ray]'): docs/ray.md.

`classify` takes folders, parquet and WebDataset archives to parquet; `Classifier` is the class for
`ray.data.Dataset.map_batches()` beneath it; `run_stream`, or python -m mobicuda.ray, is mobicuda_stream over machines.
Ray is imported where it is needed, not with this package.
"""

from mobicuda.ray.classifier import Classifier, Outcome
from mobicuda.ray.config import Config, load_config
from mobicuda.ray.data import Report, classify
from mobicuda.ray.machines import run_stream

__all__ = ["Classifier", "Config", "Outcome", "Report", "classify", "load_config", "run_stream"]
