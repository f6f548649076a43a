"""The `ollama` package: models, chat whole, streamed and async, tools, thinking, forms, generate, pull, errors."""
import asyncio
import os
import unittest
import unittest.mock

import ollama
from pydantic import BaseModel

from house import KEY, MODEL, URL, call, order, says


class Weather(BaseModel):
    town: str
    rain: bool


def headers(key=KEY):
    return {"Authorization": f"Bearer {key}"}


def client(key=KEY):
    return ollama.Client(host=URL, headers=headers(key))


def get_weather(town: str) -> str:
    """
    Weather of a town

    Args:
      town: The town's name
    """
    return order(f"It rains in {town}.")


class Models(unittest.TestCase):
    def test_key_from_the_environment(self):
        with unittest.mock.patch.dict(os.environ, {"OLLAMA_API_KEY": KEY, "OLLAMA_HOST": URL}):
            self.assertEqual(len(ollama.Client().list().models), 1)

    def test_list(self):
        models = client().list().models
        self.assertEqual([m.model for m in models], [f"{MODEL}:latest"])
        self.assertGreater(models[0].size, 1000000)
        self.assertEqual(models[0].details.format, "safetensors")

    def test_show(self):
        shown = client().show(MODEL)
        self.assertIn("tools", shown.capabilities)
        self.assertIn("general.architecture", shown.modelinfo)
        self.assertIn("{%", shown.template)

    def test_ps(self):
        running = client().ps().models
        self.assertEqual(running[0].model, f"{MODEL}:latest")
        self.assertGreater(running[0].expires_at.year, 2900)

    def test_pull(self):
        self.assertEqual(client().pull(MODEL).status, "success")
        self.assertEqual([p.status for p in client().pull(MODEL, stream=True)][-1], "success")


class Chat(unittest.TestCase):
    def test_whole_answer(self):
        r = client().chat(model=MODEL, messages=says("Four words of answer."))
        self.assertEqual(r.message.content, "Four words of answer.")
        self.assertEqual((r.done, r.done_reason), (True, "stop"))
        self.assertGreater(r.eval_count / r.eval_duration, 0)

    def test_stream_says_the_same(self):
        parts = list(client().chat(model=MODEL, messages=says("Ein Satz mit Umlauten: äöü 🦊."), stream=True))
        self.assertEqual("".join(p.message.content for p in parts), "Ein Satz mit Umlauten: äöü 🦊.")
        self.assertEqual([p.done for p in parts], [False] * (len(parts) - 1) + [True])
        self.assertGreater(parts[-1].total_duration, parts[-1].prompt_eval_duration)

    def test_async(self):
        async def run():
            c = ollama.AsyncClient(host=URL, headers=headers())
            whole = await c.chat(model=MODEL, messages=says("a b c"))
            text = ""
            async for part in await c.chat(model=MODEL, messages=says("a b c"), stream=True):
                text += part.message.content
            return whole.message.content, text

        self.assertEqual(asyncio.run(run()), ("a b c", "a b c"))

    def test_tools_loop(self):
        messages = says(call("get_weather", {"town": "Köln"}))
        first = client().chat(model=MODEL, messages=messages, tools=[get_weather])
        asked = first.message.tool_calls[0].function
        self.assertEqual((asked.name, asked.arguments), ("get_weather", {"town": "Köln"}))
        result = {"role": "tool", "tool_name": asked.name, "content": get_weather(**asked.arguments)}
        second = client().chat(model=MODEL, messages=[*messages, first.message, result], tools=[get_weather])
        self.assertEqual(second.message.content, "It rains in Köln.")

    def test_streamed_tool_call(self):
        stream = client().chat(model=MODEL, messages=says(call("get_weather", {"town": "Bonn"})), tools=[get_weather], stream=True)
        calls = [c.function.arguments for p in stream for c in p.message.tool_calls or []]
        self.assertEqual(calls, [{"town": "Bonn"}])

    def test_think(self):
        messages = says("<think>\nhm hm\n</think>\n\nyes")
        r = client().chat(model=MODEL, messages=messages, think=True)
        self.assertEqual((r.message.thinking.strip(), r.message.content.strip()), ("hm hm", "yes"))
        thinking = "".join(p.message.thinking or "" for p in client().chat(model=MODEL, messages=messages, think="high", stream=True))
        self.assertEqual(thinking.strip(), "hm hm")

    def test_format(self):
        r = client().chat(model=MODEL, messages=says('{"town":"Köln","rain":true}'), format=Weather.model_json_schema())
        self.assertEqual(Weather.model_validate_json(r.message.content), Weather(town="Köln", rain=True))

    def test_options_and_keep_alive(self):
        r = client().chat(model=MODEL, messages=says("one two three four"), options={"num_predict": 2, "num_ctx": 8192}, keep_alive="10m")
        self.assertEqual((r.done_reason, r.eval_count), ("length", 2))
        self.assertEqual(client().generate(model=MODEL, keep_alive=0).done_reason, "load")

    def test_logprobs(self):
        r = client().chat(model=MODEL, messages=says("a b"), logprobs=True, top_logprobs=2)
        self.assertEqual("".join(t.token for t in r.logprobs), "a b")

    def test_images(self):
        r = client().chat(model=MODEL, messages=[{"role": "user", "content": order(None, say_prompt=True), "images": [b"\x89PNG"]}])
        self.assertIn("[image: this model reads text only]", r.message.content)


class Generate(unittest.TestCase):
    def test_whole_answer_and_stream(self):
        self.assertEqual(client().generate(model=MODEL, prompt=order("plain text")).response, "plain text")
        self.assertEqual("".join(p.response for p in client().generate(model=MODEL, prompt=order("a b c"), stream=True)), "a b c")

    def test_raw(self):
        prompt = order(None, say_prompt=True)
        self.assertEqual(client().generate(model=MODEL, prompt=prompt, raw=True).response, prompt)


class Errors(unittest.TestCase):
    def raises(self, status, words, act):
        with self.assertRaises(ollama.ResponseError) as caught:
            act()
        self.assertEqual(caught.exception.status_code, status)
        self.assertIn(words, caught.exception.error)

    def test_statuses(self):
        self.raises(404, "model 'nope' not found", lambda: client().chat(model="nope", messages=says()))
        self.raises(400, "options.temperature", lambda: client().chat(model=MODEL, messages=says(), options={"temperature": 9}))
        self.raises(401, "key", lambda: client("sk-no").list())
        self.raises(400, "makes embeddings", lambda: client().embed(model=MODEL, input="x"))
        self.raises(501, "admin", lambda: client().create(model="x", from_=MODEL))
        self.raises(404, "not found", lambda: client().pull("llama3.2"))

    def test_a_stream_that_breaks_raises(self):
        with self.assertRaises(ollama.ResponseError):
            for _ in client().chat(model=MODEL, messages=says("a b c d e f", fail_after=2), stream=True):
                pass


if __name__ == "__main__":
    unittest.main()
