#!/usr/bin/env python3
"""Writes builtin_templates.json: what llama.cpp's own templates make of a few conversations.

The reference is `llama_chat_apply_template` of libllama, called through ctypes. The library that was used is in the npm package
@node-llama-cpp/linux-x64, version 3.22.1 (`npm pack @node-llama-cpp/linux-x64@3.22.1`, then unpack).

usage: make_builtin_templates.py DIRECTORY-OF-LIBLLAMA OUT.json
"""

import ctypes
import json
import sys
from pathlib import Path

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "  Who are you?\n"), ("assistant", " I am zinc. "), ("user", "Und größer?")],
    [("system", " One. "), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "\nd\n")],
    [("user", "{{ 1 }} {% raw %}"), ("assistant", ""), ("user", "</s>\\n'\"")],
]


class Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_char_p), ("content", ctypes.c_char_p)]


def load(directory):
    for name in ["libggml-base", "libggml", "libllama"]:
        for path in sorted(Path(directory).glob(name + "*.so*")):
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    library.llama_chat_apply_template.restype = ctypes.c_int32
    library.llama_chat_apply_template.argtypes = [
        ctypes.c_char_p, ctypes.POINTER(Message), ctypes.c_size_t, ctypes.c_bool, ctypes.c_char_p, ctypes.c_int32,
    ]
    library.llama_chat_builtin_templates.restype = ctypes.c_int32
    library.llama_chat_builtin_templates.argtypes = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t]
    return library


def main():
    library = load(sys.argv[1])
    names = (ctypes.c_char_p * 256)()
    count = library.llama_chat_builtin_templates(names, 256)
    cases = {}
    for name in sorted(name.decode() for name in names[:count]):
        rendered = []
        for conversation in CONVERSATIONS:
            messages = (Message * len(conversation))(*[(r.encode(), c.encode()) for r, c in conversation])
            for opened in [True, False]:
                buffer = ctypes.create_string_buffer(65536)
                size = library.llama_chat_apply_template(
                    name.encode(), messages, len(conversation), opened, buffer, len(buffer)
                )
                rendered.append(buffer.raw[:size].decode() if size >= 0 else None)
        cases[name] = rendered
    out = {
        "conversations": [[{"role": r, "content": c} for r, c in conversation] for conversation in CONVERSATIONS],
        "rendered": cases,
    }
    Path(sys.argv[2]).write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
