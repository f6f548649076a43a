"""What the SDKs' tests share: where the server is, and how to order an answer from the scripted engine (see
tests/api/fake_engine.c): the last message, or a tool's result, says what the model shall say."""
import asyncio
import json
import logging
import os
import unittest

logging.disable()  # what the SDKs log of errors would stand among the results
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


class AsyncCase(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # what it says of slow steps would stand among the results

    async def of_each(self, models, check):
        """Runs check(model) for each form of the API that a framework speaks."""
        for model in models:
            with self.subTest(type(model).__name__):
                await check(model)

    def closing(self, client):
        self.addAsyncCleanup(client.close)
        return client
