"""What the SDKs' tests share: where the server is, and how to order an answer from the scripted engine (see
tests/api/fake_engine.c): the last message, or a tool's result, says what the model shall say."""
import json
import os

URL = os.environ["SLUICE_URL"]
BASE = URL + "/v1"
KEY = os.environ["SLUICE_KEY"]
LIMITED_KEY = os.environ["SLUICE_LIMITED_KEY"]  # its tokens are used up for an hour
HISTORY_KEY = os.environ["SLUICE_HISTORY_KEY"]  # may not run the model
MODEL = "demo-model"


def order(text="ok", **more):
    return "fake:" + json.dumps({"text": text, **more})


def says(text="ok", **more):
    return [{"role": "user", "content": order(text, **more)}]


def call(name, arguments):
    """A tool call as the demo model's family writes it."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


WEATHER = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
}
