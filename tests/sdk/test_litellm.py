"""litellm, which maps every provider to one form: completion, stream, tools, errors."""
import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its price list comes from the net otherwise
import litellm

from house import BASE, KEY, LIMITED_KEY, MODEL, URL, WEATHER, call, says

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a town", "parameters": WEATHER}}]


def complete(messages, key=KEY, **more):
    return litellm.completion(model="openai/" + MODEL, api_base=BASE, api_key=key, messages=messages, num_retries=0, max_retries=0, **more)


class Completion(unittest.TestCase):
    def test_whole_answer(self):
        r = complete(says("An answer."))
        self.assertEqual(r.choices[0].message.content, "An answer.")
        self.assertGreater(r.usage.prompt_tokens, 3)

    def test_stream(self):
        text = "".join(c.choices[0].delta.content or "" for c in complete(says("one two three"), stream=True))
        self.assertEqual(text, "one two three")

    def test_tool_call(self):
        r = complete(says(call("get_weather", {"town": "Köln"})), tools=TOOLS)
        self.assertEqual(json.loads(r.choices[0].message.tool_calls[0].function.arguments), {"town": "Köln"})
        self.assertEqual(r.choices[0].finish_reason, "tool_calls")

    def test_errors(self):
        with self.assertRaises(litellm.AuthenticationError):
            complete(says(), key="sk-no")
        with self.assertRaises(litellm.BadRequestError):
            complete(says(), temperature=9)
        with self.assertRaises(litellm.RateLimitError):
            complete(says(), key=LIMITED_KEY)


class Ollama(unittest.TestCase):
    """Its own readers of Ollama's API, which send no content type."""

    def complete(self, provider, messages, **more):
        return litellm.completion(model=f"{provider}/{MODEL}", api_base=URL, api_key=KEY, messages=messages, **more)

    def test_whole_answer_and_stream(self):
        for provider in ("ollama_chat", "ollama"):
            r = self.complete(provider, says("An answer."))
            self.assertEqual(r.choices[0].message.content, "An answer.")
            parts = self.complete(provider, says("one two three"), stream=True)
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in parts), "one two three")

    def test_ollama_tool_call(self):
        r = self.complete("ollama_chat", says(call("get_weather", {"town": "Köln"})), tools=TOOLS)
        self.assertEqual(json.loads(r.choices[0].message.tool_calls[0].function.arguments), {"town": "Köln"})


if __name__ == "__main__":
    unittest.main()
