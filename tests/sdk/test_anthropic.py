"""The `anthropic` package against /v1/messages."""
import unittest

import anthropic

from house import HISTORY_KEY, KEY, LIMITED_KEY, MODEL, URL, WEATHER, call, order, says

TOOLS = [{"name": "get_weather", "description": "Weather of a town", "input_schema": WEATHER}]


def client(key=KEY):
    return anthropic.Anthropic(base_url=URL, api_key=key, max_retries=0, _strict_response_validation=True)


@anthropic.beta_tool
def get_weather(town: str) -> str:
    """Weather of a town."""
    return order(f"It rains in {town}.")


class Messages(unittest.TestCase):
    def test_whole_answer(self):
        r = client().messages.create(model=MODEL, max_tokens=100, system="Be brief.", messages=says("A short answer."))
        self.assertEqual([b.text for b in r.content if b.type == "text"], ["A short answer."])
        self.assertEqual(r.stop_reason, "end_turn")
        self.assertGreater(r.usage.input_tokens, 3)

    def test_stream_says_the_same(self):
        with client().messages.stream(model=MODEL, max_tokens=100, messages=says("Umlaute äöü und 🦊.")) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, "Umlaute äöü und 🦊.")
        self.assertEqual(final.stop_reason, "end_turn")

    def test_max_tokens(self):
        r = client().messages.create(model=MODEL, max_tokens=2, messages=says("one two three four five"))
        self.assertEqual(r.stop_reason, "max_tokens")

    def test_tools_loop(self):
        messages = says(call("get_weather", {"town": "Köln"}))
        first = client().messages.create(model=MODEL, max_tokens=100, messages=messages, tools=TOOLS)
        self.assertEqual(first.stop_reason, "tool_use")
        use = [b for b in first.content if b.type == "tool_use"][0]
        self.assertEqual(use.input, {"town": "Köln"})
        messages += [
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": order("It rains in Köln.")}]},
        ]
        second = client().messages.create(model=MODEL, max_tokens=100, messages=messages, tools=TOOLS)
        self.assertEqual(second.content[-1].text, "It rains in Köln.")

    def test_tool_runner(self):
        ask = {"model": MODEL, "max_tokens": 100, "messages": says(call("get_weather", {"town": "Köln"})), "tools": [get_weather]}
        turns = list(client().beta.messages.tool_runner(**ask))
        self.assertEqual([m.stop_reason for m in turns], ["tool_use", "end_turn"])
        self.assertEqual(turns[-1].content[-1].text, "It rains in Köln.")
        self.assertEqual(client().beta.messages.tool_runner(**ask).until_done().content[-1].text, "It rains in Köln.")

    def test_streamed_tool_runner(self):
        text, turns = "", []
        for stream in client().beta.messages.tool_runner(
            model=MODEL, max_tokens=100, messages=says(call("get_weather", {"town": "Bonn"})), tools=[get_weather], stream=True
        ):
            text += "".join(e.text for e in stream if e.type == "text")
            turns.append(stream.get_final_message())
        self.assertEqual([m.stop_reason for m in turns], ["tool_use", "end_turn"])
        self.assertEqual(text, "It rains in Bonn.")

    def test_models(self):
        models = list(client().models.list(limit=1))
        self.assertEqual([m.id for m in models], [MODEL])
        self.assertEqual(client().models.retrieve(MODEL), models[0])
        self.assertEqual(models[0].lifecycle, "active")
        self.assertEqual([m.id for m in client().beta.models.list()], [MODEL])

    def test_count_tokens(self):
        n = client().messages.count_tokens(model=MODEL, messages=says("x")).input_tokens
        r = client().messages.create(model=MODEL, max_tokens=10, messages=says("x"))
        self.assertEqual(n, r.usage.input_tokens)

    def test_errors(self):
        def raises(kind, status, key=KEY, **body):
            with self.assertRaises(kind) as caught:
                client(key).messages.create(**{"model": MODEL, "max_tokens": 10, "messages": says(), **body})
            self.assertEqual(caught.exception.status_code, status)
            self.assertEqual(caught.exception.body["type"], "error")

        raises(anthropic.BadRequestError, 400, extra_body={"temperature": 9})
        raises(anthropic.AuthenticationError, 401, key="sk-no")
        raises(anthropic.PermissionDeniedError, 403, key=HISTORY_KEY)
        raises(anthropic.NotFoundError, 404, model="nope")
        raises(anthropic.RateLimitError, 429, key=LIMITED_KEY)


if __name__ == "__main__":
    unittest.main()
