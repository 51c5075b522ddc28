"""Makes nested.gguf: metadata with arrays within arrays, as gguf-py writes them.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0
    venv/bin/python make_nested.py
"""

from pathlib import Path

import gguf

writer = gguf.GGUFWriter(Path(__file__).with_name("nested.gguf"), "test")
writer.add_array("numbers", [[1, 2], [-3]])
writer.add_array("words", [["a", "b"], ["c"]])
writer.add_array("deep", [[[True], [False, True]], [[False]]])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.close()
