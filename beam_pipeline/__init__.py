"""beam-tfrecord: turns images and their labels into shuffled TFRecords for training."""

__version__ = "1.0.0"

TYPE_CHECKING = False  # as typing has it, whose import would take as long as all of this

if TYPE_CHECKING:
    from beam_pipeline.conversion import convert as convert
    from beam_pipeline.conversion import convert_samples as convert_samples
    from beam_pipeline.dataset import Dataset as Dataset
    from beam_pipeline.dataset import class_names as class_names
    from beam_pipeline.readers.random_access import RandomAccess as RandomAccess
    from beam_pipeline.readers.samples import parse_example as parse_example
    from beam_pipeline.readers.tf_data import feature_spec as feature_spec
    from beam_pipeline.readers.tf_data import load as load
    from beam_pipeline.readers.torch_dataset import TFRecordDataset as TFRecordDataset
else:
    # Name -> its module, imported on first use: TensorFlow takes seconds.
    _LAZY = {
        "class_names": "beam_pipeline.dataset",
        "Dataset": "beam_pipeline.dataset",
        "convert": "beam_pipeline.conversion",
        "convert_samples": "beam_pipeline.conversion",
        "RandomAccess": "beam_pipeline.readers.random_access",
        "feature_spec": "beam_pipeline.readers.tf_data",
        "load": "beam_pipeline.readers.tf_data",
        "parse_example": "beam_pipeline.readers.samples",
        "TFRecordDataset": "beam_pipeline.readers.torch_dataset",
    }

    def __getattr__(name):
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_LAZY[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *_LAZY})
