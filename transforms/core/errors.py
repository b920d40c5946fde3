"""What can go wrong with a whole run. One bad sample is a `DeadLetter`, never one of these.

ConversionError
├── UsageError               the command cannot mean anything; nothing was started
│   ├── CredentialsError     nobody knows who is asking for a bucket
│   ├── LabelTableError      a label file is unusable as a whole
│   ├── InventoryError       a listing made elsewhere is unusable as a whole
│   └── OutputNotEmptyError  the output folder holds something that must not be touched
├── BucketError              a bucket does not exist, or a permission on it is missing
├── ContainerError           a file that holds many samples is broken
├── ListingError             part of the input cannot be listed, so samples would be lost unseen
├── NothingJoinedError       not one image met a label
├── TooManyBadSamplesError   more bad samples than --max_bad_fraction
├── LostSamplesError         the books do not balance: a fault of the program or the runner
├── OutputError              a shard cannot be written: no space, no right
├── ChangedInputsError       what an earlier run began is not what would be written now
├── WriterProcessError       a process of ours died
├── JobError                 an engine far away did not take a job, or it failed there
├── SampleError              a value given from Python cannot become a feature
└── DamagedRecordError       a TFRecord file does not hold what its framing says
"""


class ConversionError(Exception):
    """Base of every error whose message is written for the person who ran the command."""


class UsageError(ConversionError):
    """The command line or its inputs cannot be used; found before anything was written."""


class CredentialsError(UsageError):
    """There are no credentials for a bucket, or they are not accepted."""


class LabelTableError(UsageError):
    """A label file is unusable as a whole: no header, no key column, not text."""


class InventoryError(UsageError):
    """A file of --inventory is unusable as a whole: other columns, or a row that says no file."""


class OutputNotEmptyError(UsageError):
    """The output folder holds files that this run has no right to touch."""


class BucketError(ConversionError):
    """A bucket does not exist, or a permission on it is missing."""


class ListingError(ConversionError):
    """A folder cannot be listed, so nobody knows which samples would be missing."""


class ContainerError(ConversionError):
    """A file that holds many samples cannot be read, so nobody knows which would be missing."""


class NothingJoinedError(ConversionError):
    """No image met a label, so there is nothing to write."""


class TooManyBadSamplesError(ConversionError):
    """The share of bad samples is above what the person allowed."""


class LostSamplesError(ConversionError):
    """Listed images and label rows do not add up to examples and dead letters."""


class OutputError(ConversionError):
    """A file of the data set cannot be written."""


class WriterProcessError(ConversionError):
    """A process that wrote shards died, as when the system runs out of memory."""


class JobError(ConversionError):
    """An engine on other machines did not take the job, or it failed there."""


class SampleError(ConversionError):
    """A sample given from Python holds what no feature can hold."""


class ChangedInputsError(ConversionError):
    """What an earlier run began to write is not what would be written now."""


class DamagedRecordError(ConversionError):
    """The framing, a checksum or the payload of a TFRecord file is broken."""
