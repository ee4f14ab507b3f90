"""A file larger than memory: one scan that leaves its rows in parts of whole prompts.

`scan` reads a Parquet file once, in batches; `rows` holds the result. Statistics of the parts
belong to the estimators.
"""

from cje.data.streaming.reader import STREAM_FROM, NotStreamed, announced_rows, read_streamed
from cje.data.streaming.rows import Part, StreamedRows

__all__ = ["STREAM_FROM", "NotStreamed", "Part", "StreamedRows", "announced_rows", "read_streamed"]
