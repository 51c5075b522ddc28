"""Open WebUI at WEBUI_URL, whose only connection is zinc: what its pages ask, by the paths that they use. WEBUI_API is the API of the connection,
`openai` or `ollama`.
"""

import json
import os
import time
import urllib.error
import urllib.request
import uuid

import checks
from checks import ANSWER, THOUGHT, same

WEBUI = os.environ["WEBUI_URL"]
OPENAI = os.environ["WEBUI_API"] == "openai"
# The longest wait for an answer to be complete. It is far more than that takes.
PATIENCE_S = 60

headers = {"Content-Type": "application/json"}


def ask(path, body=None):
    """The reply to a request, as text."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(WEBUI + path, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code}: {error.read().decode()}") from error


def json_of(path, body=None):
    return json.loads(ask(path, body))


# The first user of all is the administrator.
user = json_of("/api/v1/auths/signup", {"name": "Ada", "email": "ada@example.org", "password": "a-Password-1"})
headers["Authorization"] = f"Bearer {user['token']}"
[model] = json_of("/api/models")["data"]


class Chat:
    """A chat as a page begins it: the answer goes into the chat, which pages show, and not into the reply."""

    def __init__(self, text, tasks=()):
        question, self.answer_id = str(uuid.uuid4()), str(uuid.uuid4())
        message = {"id": question, "parentId": None, "childrenIds": [self.answer_id], "role": "user", "content": text}
        reply = json_of("/api/chat/completions", {
            "stream": True,
            "model": model["id"],
            "model_item": model,
            "messages": [{"role": "user", "content": text}],
            "params": {},
            "features": {},
            "session_id": str(uuid.uuid4()),
            "parent_id": None,
            "message_ids": [{"model_id": model["id"], "message_id": self.answer_id}],
            "user_message": message,
            "background_tasks": {task: True for task in tasks},
            "stream_options": {"include_usage": True},
        })
        same(reply["status"], True)
        self.id = reply["chat_id"]

    def read(self):
        """The chat, and its answer as far as it is there."""
        chat = json_of(f"/api/v1/chats/{self.id}")
        return chat, chat["chat"]["history"]["messages"][self.answer_id]

    def wait(self, what, is_there):
        """Waits until `is_there(chat, answer)`, and returns these two."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            chat, answer = self.read()
            if is_there(chat, answer):
                return chat, answer
            time.sleep(0.1)
        raise AssertionError(f"{what} is not there after {PATIENCE_S} s: {json.dumps(answer)}")

    def answer(self):
        return self.wait("the end of the answer", lambda _, answer: answer.get("done"))[1]


def texts(answer, kind, field="content"):
    """The texts of all parts of an answer that are of this kind, such as `reasoning`, and have them in this field."""
    parts = [part for part in answer["output"] if part["type"] == kind]
    return ["".join(text["text"] for text in part[field]) for part in parts]


def check_models():
    same((model["id"], model["owned_by"]), ("zinc", "openai" if OPENAI else "ollama"))


def check_answer_without_page():
    body = {"model": model["id"], "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    reply = json_of("/api/chat/completions", body)
    same(reply["choices"][0]["message"]["content"], "Grüße: Hi")
    assert reply["usage"]["completion_tokens"] > 0


def check_chat():
    answer = Chat("think").answer()
    same((texts(answer, "reasoning"), texts(answer, "message")), ([THOUGHT], [ANSWER]))
    usage = answer["usage"]
    # The counts that pages show are those of this one answer.
    assert usage["completion_tokens"] > 0
    same((usage["input_tokens"], usage["output_tokens"]), (usage["prompt_tokens"], usage["completion_tokens"]))


def check_title_and_tags():
    chat = Chat("Hi", ["title_generation", "tags_generation", "follow_up_generation"])

    def is_there(chat, answer):
        return chat["title"] != "New Chat" and chat["meta"].get("tags") and answer.get("followUps")

    found, answer = chat.wait("the title with tags", is_there)
    same((found["title"], found["meta"]["tags"]), ("A talk about numbers", ["numbers"]))
    same(answer["followUps"], ["And seven times six?"])


def check_tool():
    answer = Chat("clock").answer()
    same(texts(answer, "message"), ["I look.", "It is late."])
    [call] = [part for part in answer["output"] if part["type"] == "function_call"]
    same((call["name"], call["arguments"]), ("get_current_timestamp", "{}"))
    [result] = texts(answer, "function_call_output", "output")
    assert abs(json.loads(result)["current_timestamp"] - time.time()) < 600, result


def check_stop():
    chat = Chat("endless")
    # An answer is written into the chat at its end, so that a lane that is taken is the sign of its beginning.
    checks.wait_until_taken()
    same(json_of(f"/api/tasks/chat/{chat.id}/stop", {})["status"], True)
    chat.answer()
    checks.wait_until_free()


def check_failure():
    answer = Chat("break").answer()
    if OPENAI:
        assert "device has failed" in answer["error"]["content"]["message"], answer
    else:
        # It has no eye for an error within ollama's form of a stream, and shows what came before.
        same(answer["content"], "one two")


checks.run(f"open-webui ({os.environ['WEBUI_API']})", globals())
