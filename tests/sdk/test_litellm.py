"""litellm, which maps every provider to one form: completion, stream, tools, errors."""
import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its price list comes from the net otherwise
import litellm

from house import BASE, KEY, LIMITED_KEY, MODEL, WEATHER, call, says

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


if __name__ == "__main__":
    unittest.main()
