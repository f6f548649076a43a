"""The `openai` package: chat, stream, tools, text completions, errors as its own classes."""
import json
import unittest

import openai
from openai import OpenAI
from pydantic import BaseModel

from house import BASE, HISTORY_KEY, KEY, LIMITED_KEY, MODEL, WEATHER, call, order, says

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a town", "parameters": WEATHER}}]


class Weather(BaseModel):
    town: str
    rain: bool


def client(key=KEY, strict=True):
    return OpenAI(base_url=BASE, api_key=key, max_retries=0, _strict_response_validation=strict)


class Chat(unittest.TestCase):
    def test_whole_answer(self):
        r = client().chat.completions.create(model=MODEL, messages=says("Four words of answer."))
        self.assertEqual(r.choices[0].message.content, "Four words of answer.")
        self.assertEqual(r.choices[0].finish_reason, "stop")
        self.assertEqual(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens)
        self.assertTrue(r._request_id.startswith("req_"))

    def test_stream_says_the_same(self):
        text, usage = "", None
        for chunk in client().chat.completions.create(
            model=MODEL, messages=says("Ein Satz mit Umlauten: äöü 🦊."), stream=True, stream_options={"include_usage": True}
        ):
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            usage = chunk.usage or usage
        self.assertEqual(text, "Ein Satz mit Umlauten: äöü 🦊.")
        self.assertGreater(usage.completion_tokens, 5)

    def test_stream_helper(self):
        with client().chat.completions.stream(model=MODEL, messages=says("a b c")) as stream:
            parts = [e.delta for e in stream if e.type == "content.delta"]
            final = stream.get_final_completion()
        self.assertEqual("".join(parts), "a b c")
        self.assertEqual(final.choices[0].message.content, "a b c")

    def test_tools_loop(self):
        messages = says(call("get_weather", {"town": "Köln"}))
        first = client().chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        self.assertEqual(first.choices[0].finish_reason, "tool_calls")
        asked = first.choices[0].message.tool_calls[0]
        self.assertEqual(json.loads(asked.function.arguments), {"town": "Köln"})
        messages += [first.choices[0].message, {"role": "tool", "tool_call_id": asked.id, "content": order("It rains in Köln.")}]
        second = client().chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        self.assertEqual(second.choices[0].message.content, "It rains in Köln.")

    def test_streamed_tool_call(self):
        with client().chat.completions.stream(model=MODEL, messages=says(call("get_weather", {"town": "Bonn"})), tools=TOOLS) as stream:
            final = stream.get_final_completion()
        self.assertEqual(json.loads(final.choices[0].message.tool_calls[0].function.arguments), {"town": "Bonn"})

    def test_choices_logprobs_length(self):
        r = client().chat.completions.create(model=MODEL, messages=says("one two three four"), n=2, logprobs=True, top_logprobs=2, max_tokens=2)
        self.assertEqual([c.index for c in r.choices], [0, 1])
        self.assertEqual([c.finish_reason for c in r.choices], ["length", "length"])
        self.assertEqual(len(r.choices[0].logprobs.content), 2)
        self.assertEqual(len(r.choices[0].logprobs.content[0].top_logprobs), 2)

    def test_parse(self):
        r = client().chat.completions.parse(model=MODEL, messages=says('{"town":"Köln","rain":true}'), response_format=Weather)
        self.assertEqual(r.choices[0].message.parsed, Weather(town="Köln", rain=True))

    def test_parse_tools(self):
        tools = [openai.pydantic_function_tool(Weather, name="report")]
        r = client().chat.completions.parse(model=MODEL, messages=says(call("report", {"town": "Bonn", "rain": False})), tools=tools)
        self.assertEqual(r.choices[0].message.tool_calls[0].function.parsed_arguments, Weather(town="Bonn", rain=False))

    def test_text_completion(self):
        r = client().completions.create(model=MODEL, prompt=order("plain text"), max_tokens=50)
        self.assertEqual(r.choices[0].text, "plain text")

    def test_streamed_text_completion(self):
        # Not strict: the SDK's one type for both has no finish_reason of null, which OpenAI's own streams hold as well.
        chunks = list(client(strict=False).completions.create(model=MODEL, prompt=order("one two three"), max_tokens=50, stream=True))
        self.assertEqual("".join(c.choices[0].text for c in chunks), "one two three")
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], ["stop"])
        with self.assertRaises(openai.APIResponseValidationError) as caught:
            list(client().completions.create(model=MODEL, prompt=order("one two three"), max_tokens=50, stream=True))
        self.assertRegex(str(caught.exception.__cause__), r"^1 validation error[^$]*finish_reason")

    def test_models(self):
        self.assertEqual([m.id for m in client().models.list()], [MODEL])
        self.assertEqual(client().models.retrieve(MODEL).object, "model")


class Responses(unittest.TestCase):
    def test_whole_answer_and_what_follows(self):
        c = client()
        first = c.responses.create(model=MODEL, input=order("An answer."))
        self.assertEqual(first.output_text, "An answer.")
        self.assertEqual(first.status, "completed")
        self.assertEqual(c.responses.retrieve(first.id).output_text, "An answer.")
        second = c.responses.create(model=MODEL, input=order("And more."), previous_response_id=first.id)
        self.assertEqual(second.output_text, "And more.")
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        c.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            c.responses.retrieve(first.id)

    def test_stream(self):
        with client().responses.stream(model=MODEL, input=order("one two three")) as stream:
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
            final = stream.get_final_response()
        self.assertEqual(text, "one two three")
        self.assertEqual(final.output_text, "one two three")

    def test_tools_loop(self):
        tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}]
        question = says(call("get_weather", {"town": "Köln"}))
        first = client().responses.create(model=MODEL, input=question, tools=tools)
        asked = [i for i in first.output if i.type == "function_call"][0]
        self.assertEqual(json.loads(asked.arguments), {"town": "Köln"})
        result = {"type": "function_call_output", "call_id": asked.call_id, "output": order("It rains in Köln.")}
        second = client().responses.create(model=MODEL, input=[*question, asked, result], tools=tools)
        self.assertEqual(second.output_text, "It rains in Köln.")

    def test_parse(self):
        r = client().responses.parse(model=MODEL, input=order('{"town":"Köln","rain":true}'), text_format=Weather)
        self.assertEqual(r.output_parsed, Weather(town="Köln", rain=True))


class Conversations(unittest.TestCase):
    def test_items(self):
        c = client().conversations
        made = c.create(metadata={"topic": "rain"}, items=[{"role": "user", "content": "one"}])
        self.assertEqual((made.object, made.metadata), ("conversation", {"topic": "rain"}))
        added = c.items.create(made.id, items=[{"type": "message", "role": "user", "content": str(i)} for i in range(20)])
        self.assertEqual(len(added.data), 20)
        self.assertEqual(added.data[0].content[0].text, "0")
        c.items.create(made.id, items=[{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                                       {"type": "function_call_output", "call_id": "c1", "output": "done"}])
        listed = list(c.items.list(made.id, order="asc", limit=5, include=["message.output_text.logprobs"]))
        self.assertEqual([i.type for i in listed], ["message"] * 21 + ["function_call", "function_call_output"])
        self.assertEqual(len({i.id for i in listed}), 23)
        self.assertEqual(c.items.retrieve(listed[3].id, conversation_id=made.id).content[0].text, "2")
        self.assertEqual(c.items.delete(listed[3].id, conversation_id=made.id).id, made.id)
        with self.assertRaises(openai.NotFoundError):
            c.items.retrieve(listed[3].id, conversation_id=made.id)
        self.assertEqual(c.update(made.id, metadata={"topic": "sun"}).metadata, {"topic": "sun"})
        self.assertEqual(c.retrieve(made.id).metadata, {"topic": "sun"})
        gone = c.delete(made.id)
        self.assertEqual((gone.deleted, gone.object), (True, "conversation.deleted"))
        with self.assertRaises(openai.NotFoundError):
            c.retrieve(made.id)

    def test_responses_continue_it(self):
        c = client()
        made = c.conversations.create()
        first = c.responses.create(model=MODEL, input=order("An answer."), conversation=made.id)
        self.assertEqual(first.conversation.id, made.id)
        with c.responses.stream(model=MODEL, input=order("And more."), conversation={"id": made.id}) as stream:
            second = stream.get_final_response()
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens)
        listed = list(c.conversations.items.list(made.id, order="asc"))
        self.assertEqual([i.role for i in listed], ["user", "assistant"] * 2)
        self.assertEqual([listed[1].id, listed[3].id], [first.output[0].id, second.output[0].id])
        self.assertEqual(listed[3].content[0].text, "And more.")

    def test_compact(self):
        c = client(strict=False)  # the SDK's type of the output knows no user's messages, which OpenAI's own answers hold
        short = c.responses.compact(model=MODEL, input=[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}, *says("A summary.")])
        self.assertEqual([i.type for i in short.output], ["message", "message", "compaction"])
        self.assertEqual(short.usage.total_tokens, short.usage.input_tokens + short.usage.output_tokens)
        again = c.responses.create(model=MODEL, input=[*[i.model_dump(exclude_unset=True) for i in short.output], *says("On we go.")])
        self.assertEqual(again.output_text, "On we go.")


class Errors(unittest.TestCase):
    def raises(self, kind, status, code, key=KEY, **body):
        with self.assertRaises(kind) as caught:
            client(key).chat.completions.create(**{"model": MODEL, "messages": says(), **body})
        e = caught.exception
        self.assertEqual(e.status_code, status)
        self.assertEqual(e.code, code)
        self.assertTrue(e.request_id.startswith("req_"))
        return e

    def test_classes(self):
        e = self.raises(openai.BadRequestError, 400, "invalid_value", temperature=9)
        self.assertEqual(e.param, "temperature")
        self.raises(openai.AuthenticationError, 401, "invalid_api_key", key="sk-no")
        self.raises(openai.PermissionDeniedError, 403, "insufficient_scope", key=HISTORY_KEY)
        self.raises(openai.NotFoundError, 404, "model_not_found", model="nope")
        e = self.raises(openai.RateLimitError, 429, "rate_limit_exceeded", key=LIMITED_KEY)
        self.assertGreaterEqual(int(e.response.headers["retry-after"]), 1)
        self.raises(openai.InternalServerError, 503, "queue_full", messages=says(refuse="busy"))

    def test_a_stream_that_breaks_raises(self):
        with self.assertRaises(openai.APIError):
            for _ in client().chat.completions.create(model=MODEL, messages=says("a b c d e f", fail_after=2), stream=True):
                pass


if __name__ == "__main__":
    unittest.main()
